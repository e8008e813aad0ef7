//! The operating system below the standard library: network namespaces, and the system calls std has no name for.

pub mod netns;
pub(crate) mod sys;
