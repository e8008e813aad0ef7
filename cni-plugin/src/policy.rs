//! What happens to a pod: redirected, and how, or left alone. Only `decision` does I/O.

pub mod decision;
pub mod intent;
pub(crate) mod overrides;
