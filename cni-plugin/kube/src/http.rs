//! One HTTP request and its outcome: the connection, the answer's meaning, and what went wrong below HTTP.

mod failure;
pub mod request;
mod resolver;
pub(crate) mod session;
pub(crate) mod status;
