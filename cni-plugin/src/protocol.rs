//! The CNI protocol: what a runtime hands to the plugin, and what the plugin answers.

pub mod call;
pub mod netconf;
pub mod reply;
