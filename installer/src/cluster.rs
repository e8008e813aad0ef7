//! The API server's side: this pod's identity, the plugin's token, its rights, and the end of the installation.

pub mod api;
pub mod credential_thread;
pub mod identity;
pub mod requests;
pub mod rights;
pub mod token;
pub mod uninstall;
pub mod volume;
