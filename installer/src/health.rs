//! What the installer tells people and machines: the log, `/readyz`, `/metrics` and `check`.

pub mod check;
pub mod report;
pub mod serve;
pub mod status;
