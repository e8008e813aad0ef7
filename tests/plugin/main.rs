//! The plugin from outside: environment and stdin in, one JSON document, an exit code and the kernel's rules out.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as it should be"
)]

mod api_answers;
mod api_failures;
mod bursts;
mod chains;
mod check;
mod conformance;
mod credentials;
mod damaged;
mod exec;
mod fuzz;
mod hostile;
mod hostile_replies;
mod iptables;
mod iptables_failures;
mod killed;
mod kubeconfig;
mod lacking;
mod names;
mod nft;
mod node;
mod packets;
mod proxies;
mod ruleset;
mod ruleset_texts;
