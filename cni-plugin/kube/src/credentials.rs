//! What a call presents to the API server, read from disk for this call: token, client certificate, exec plugin.

pub mod claims;
mod exec;
pub(crate) mod material;
pub mod token;
