//! The error of this crate: one class of a small set, and one line for a person.

use std::{fmt, time::Duration};

/// The kind of failure: what a caller decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The kubeconfig has content that cannot be used: a person has to change it.
    Kubeconfig,
    /// A required file (the kubeconfig, a token, a certificate) is missing, empty or unreadable, or an exec plugin
    /// returned no credential.
    Credential,
    /// The server's certificate is not trusted by the CA bundle, or the bundle has no certificate.
    Trust,
    /// 401: the API server rejected the credential.
    Unauthorized,
    /// 403: authenticated, but not authorized.
    Forbidden,
    /// 403 for `system:anonymous`: the API server received no credential.
    Anonymous,
    /// 404 for the object itself.
    NotFound,
    /// The object of this name does not have the requested UID.
    WrongUid,
    /// 409: another writer was first, or the object that a token binds to was recreated.
    Conflict,
    /// 429
    TooManyRequests,
    /// 5xx
    Server,
    /// No connection, or a broken one.
    Unreachable,
    /// No response before the deadline.
    Timeout,
    /// A response that no Kubernetes API server sends.
    NotKubernetes,
    /// 400, 405, 422 and the like: the request itself is wrong.
    BadRequest,
}

/// The variant's name, for the log.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A failure as one line for a person: operation, thing, cause, what to do. It never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of failure.
    pub class: Class,
    message: String,
    /// The pause the server asked for.
    pub(crate) retry_after: Option<Duration>,
}

impl Error {
    /// An error of this class.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Puts the operation in front.
    pub(crate) fn context(mut self, operation: &str) -> Self {
        self.message = format!("{operation}: {}", self.message);
        self
    }

    /// Appends what else is known, or what to do.
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.message = format!("{}; {hint}", self.message);
        self
    }

    /// Sets the pause the server asked for.
    pub(crate) fn after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Returns true when the API server gave no answer about the object: it is down, unreachable, not trusted, or rejects
    /// our credential. The pod's annotations may then decide instead.
    ///
    /// False when the server did answer (404, another UID), and when only a person can help (a kubeconfig with unusable
    /// content, an invalid request): falling back would hide that problem. A kubeconfig that is missing, empty or
    /// incomplete counts as no answer: a node looks like this before the installer has run, or after a power cut.
    pub fn is_unavailable(&self) -> bool {
        !matches!(
            self.class,
            Class::Kubeconfig | Class::NotFound | Class::WrongUid | Class::Conflict | Class::BadRequest
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
