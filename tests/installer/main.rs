//! The installer from outside: a node's directories before and after. A test's name says what is right; many of them are
//! reports of users, or defects that installers of this kind have had.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as it should be"
)]

mod bad_input;
mod check;
mod cluster;
mod conflists;
mod crash;
mod credentials;
mod defects;
mod ending;
mod ending_tokens;
mod follow;
mod help;
mod hostile_following;
mod leave;
mod links;
mod links_followed;
mod load;
mod meanwhile;
mod node;
mod own_token;
mod records;
mod repair;
mod status;
mod two_of_us;
