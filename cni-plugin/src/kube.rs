//! The only door to the API server.

pub mod pod;
