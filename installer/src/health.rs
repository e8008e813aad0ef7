//! What the installer tells people and machines: the log, `/readyz`, `/metrics` and `check`.

pub mod check;
pub(crate) use crate::node::report;
pub mod serve;
pub mod status;
