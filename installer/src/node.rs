//! The node's files: the plugin's binary, its credentials and its entry in the CNI configuration list.

pub mod atomic;
pub mod binary;
pub mod ca;
pub mod conflist;
pub mod credentials;
pub mod ownership;
pub mod reconcile;
pub mod report;
