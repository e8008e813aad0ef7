//! The three ways in which a kubeconfig is unusable.

use crate::error::{Class, Error};

/// The text is damaged. A kubeconfig is empty, truncated or zeroed after a power cut, not because a person wrote it so: it
/// counts as a missing credential, and the pod's annotations may decide.
pub(super) fn damaged(how: &str) -> Error {
    Error::new(Class::Credential, format!("{how}; write it again"))
}

/// A part is missing. Truncated YAML is still YAML, so this counts as damage, too. If a person left the part out, there is
/// no server or no credential either, with the same result.
pub(super) fn missing(message: impl Into<String>) -> Error {
    Error::new(Class::Credential, message)
}

/// A part is wrong or contradicts another: a person wrote it.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Class::Kubeconfig, message)
}
