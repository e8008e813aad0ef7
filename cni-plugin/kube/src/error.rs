//! What can go wrong between a kubeconfig and a pod, in one small set of classes.

use std::{fmt, time::Duration};

/// What kind of failure it is: what a caller decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The kubeconfig says something that cannot be used: a person has to change it.
    Kubeconfig,
    /// A file that must be there (the kubeconfig itself, a token, a certificate) is missing, empty or not readable, or
    /// an exec plugin gave no credential.
    Credential,
    /// The server's certificate is not one that the CA bundle vouches for, or the bundle holds none.
    Trust,
    /// 401: the server does not take the credential, or no longer.
    Unauthorized,
    /// 403: the server knows who we are, and that we may not.
    Forbidden,
    /// 403 for `system:anonymous`: no credential reached the server.
    Anonymous,
    /// 404 for the object itself.
    NotFound,
    /// The object of this name is another one: its uid is not the one asked for.
    WrongUid,
    /// 409: another writer was first, or an object that a token is to be bound to was made anew.
    Conflict,
    /// 429
    TooManyRequests,
    /// 5xx
    Server,
    /// No connection, or one that broke.
    Unreachable,
    /// Not within the deadline.
    Timeout,
    /// Somebody answered, but not as a Kubernetes API server does.
    NotKubernetes,
    /// 400, 405, 422 and the like: the request itself is refused.
    BadRequest,
}

/// A failure, as one line for a person: operation, thing, cause, what to do. It never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure it is.
    pub class: Class,
    message: String,
    /// How long the server wants to be left alone.
    pub(crate) retry_after: Option<Duration>,
}

impl Error {
    /// A failure of this class.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Puts what was being done in front.
    pub(crate) fn context(mut self, operation: &str) -> Self {
        self.message = format!("{operation}: {}", self.message);
        self
    }

    /// Adds what else is known, or what to do.
    pub(crate) fn and(mut self, more: impl fmt::Display) -> Self {
        self.message = format!("{}; {more}", self.message);
        self
    }

    pub(crate) fn after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// True when the API server could not be asked: it is down, cannot be reached or trusted, or takes no credential
    /// of ours. The pod's annotations may then decide instead, for none of this says anything about the pod.
    ///
    /// False when the server did answer the question (404, another uid), and when only a person can help (a
    /// kubeconfig with unusable content, a request it finds wrong): hiding that behind an answer that works would let
    /// it stay. A kubeconfig that is missing, empty or not whole counts as the former: that is what a node looks like
    /// before the installer has run, or after a power cut.
    pub fn cannot_be_asked(&self) -> bool {
        match self.class {
            Class::Credential
            | Class::Trust
            | Class::Unauthorized
            | Class::Forbidden
            | Class::Anonymous
            | Class::TooManyRequests
            | Class::Server
            | Class::Unreachable
            | Class::Timeout
            | Class::NotKubernetes => true,
            Class::Kubeconfig | Class::NotFound | Class::WrongUid | Class::Conflict | Class::BadRequest => {
                false
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
