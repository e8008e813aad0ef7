//! The redirection rules of one pod, and the two ways into the kernel: nf_tables, and iptables as the fallback.

pub(crate) mod apply;
pub mod iptables;
pub mod nft;
pub mod ruleset;
