//! One HTTP request and its outcome: the connection, the meaning of the response, and what went wrong below HTTP.

mod failure;
pub mod request;
mod resolver;
pub(crate) mod session;
pub(crate) mod status;
