//! Kubernetes objects in JSON, as far as the client reads them.

pub mod object;
pub mod pod;
