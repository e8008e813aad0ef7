//! CNI error codes, and the failure a runtime sees. An error type anywhere in the plugin names its own code by
//! [`CniError`], so that the reply depends on no other wing.

use std::fmt;

use evergreen_kube as kube;

/// A CNI error code. 1 to 99 belong to the specification (1.1.0, section "Error", and `pkg/types` of the reference
/// library); codes from 100 on are the plugin's own. Runtimes ignore the code; people and tests read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The configuration asks for an unsupported protocol version.
    IncompatibleVersion = 1,
    /// An environment variable is missing or invalid.
    Environment = 4,
    /// Stdin cannot be read.
    Io = 5,
    /// Stdin is not the expected JSON.
    Decoding = 6,
    /// The network configuration is invalid.
    NetConf = 7,
    /// The network namespace cannot be used.
    Netns = 8,
    /// STATUS: no ADD can succeed.
    NotAvailable = 50,
    /// The kubeconfig, or a file it names, cannot be used.
    Credentials = 100,
    /// The API server cannot be reached or refuses the request.
    Api = 101,
    /// An annotation or a container of the pod has an invalid value.
    Pod = 102,
    /// The kernel refuses the rules, or cannot be asked for them.
    Rules = 103,
    /// CHECK: the rules differ from what they should be.
    Drift = 104,
    /// A bug in this program.
    Internal = 999,
}

/// An error with a CNI code.
pub trait CniError: fmt::Display {
    /// Returns the code of the failure.
    fn code(&self) -> Code;

    /// Returns the value or rule that the reference library reports apart from the message.
    fn details(&self) -> String {
        String::new()
    }
}

/// A failure as the runtime sees it. The message names the operation, the thing, the cause and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub code: Code,
    /// One line for a person.
    pub msg: String,
    /// The value or rule that the reference library reports apart from the message.
    pub details: String,
}

impl Failure {
    /// A failure without details.
    pub fn new(code: Code, msg: impl Into<String>) -> Self {
        Self {
            code,
            msg: msg.into(),
            details: String::new(),
        }
    }

    /// The same failure with its subject in front of the message.
    #[must_use]
    pub fn about(mut self, subject: impl fmt::Display) -> Self {
        self.msg = format!("{subject}: {}", self.msg);
        self
    }
}

impl<E: CniError> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            code: error.code(),
            msg: error.to_string(),
            details: error.details(),
        }
    }
}

impl CniError for kube::Error {
    fn code(&self) -> Code {
        match self.class {
            kube::Class::Kubeconfig | kube::Class::Credential => Code::Credentials,
            _ => Code::Api,
        }
    }
}
