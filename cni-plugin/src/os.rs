//! The operating system below the standard library: network namespaces, and the system calls without a safe function.

pub mod netns;
pub(crate) mod sys;
