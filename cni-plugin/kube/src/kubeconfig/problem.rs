//! The three ways in which a kubeconfig can be unusable, and who may have caused each.

use crate::error::{Class, Error};

/// An empty, cut off or zeroed file is how a kubeconfig looks after a power cut, not what a person wrote: it counts as a
/// credential that is not there, for which the pod's annotations may stand in.
pub(super) fn damaged(how: &str) -> Error {
    Error::new(Class::Credential, format!("{how}; write it anew"))
}

/// So does one that lacks a part: YAML that was cut off, or whose writer has not finished, is YAML all the same. Should a
/// person have left the part out, there is no server to ask or no credential that it would take: the same would follow.
pub(super) fn missing(message: impl Into<String>) -> Error {
    Error::new(Class::Credential, message)
}

/// A part that is wrong, or that contradicts another, is what a person has written.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Class::Kubeconfig, message)
}
