//! The mesh CNI plugin whose credentials never go stale: one CNI call, from the runtime's request to our reply.

pub mod cidr;
pub mod deadline;
pub mod intent;
pub mod iptables;
pub mod kube;
pub mod log;
pub mod netns;
pub mod nft;
pub mod ports;
pub mod ruleset;
