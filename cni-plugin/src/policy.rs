//! What happens to a pod: redirect it, and how, or leave it alone. Only `decision` does I/O.

pub mod cidr;
pub mod decision;
pub mod intent;
pub mod ports;
