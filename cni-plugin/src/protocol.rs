//! The CNI protocol: what a runtime passes to the plugin, and what the plugin answers.

pub mod args;
pub mod call;
pub mod failure;
pub mod netconf;
pub mod previous;
pub mod reply;
pub mod version;
