//! What the installer tells people and probes: `/livez`, `/readyz`, `/metrics`, and the command `check`.

pub mod check;
pub mod serve;
pub mod status;
