//! The API server's side: this pod's identity, the plugin's token and permissions, and the decision whether a shutdown is an
//! uninstall. Writes no file.

pub mod api;
pub mod credential_thread;
pub mod existing_token;
pub mod identity;
pub mod permissions;
pub mod requests;
pub mod token;
pub mod uninstall;
pub mod volume;
