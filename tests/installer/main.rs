//! The installer from outside: a node's directories before and after.
//!
//! A letter and a number in front of a name tell where the case is from, in the list that the project keeps: reports of
//! users (`a`, `b`, `o`) and defects in the source of such installers (`d`). The rest of the name says what is right.
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
mod follow;
mod help;
mod hostile_following;
mod leave;
mod load;
mod node;
mod own_token;
mod repair;
mod status;
