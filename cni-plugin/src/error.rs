//! The one table from our failures to CNI codes.

use std::fmt;

use crate::{
    os::netns,
    policy::intent,
    protocol::{call, netconf},
    rules::{iptables, nft},
};
use evergreen_kube as kube;

/// A CNI error code. 1 to 99 are the specification's (1.1.0, section "Error", and `pkg/types` of the reference
/// library); from 100 on they are ours. No runtime acts on a code, people and tests do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The configuration asks for a protocol version that is not spoken.
    IncompatibleVersion,
    /// A variable of the environment is missing or not allowed.
    Environment,
    /// Stdin could not be read.
    Io,
    /// Stdin is not the JSON it should be.
    Decoding,
    /// The network configuration cannot be used.
    NetConf,
    /// The network namespace cannot be used.
    Netns,
    /// STATUS: no ADD could be served.
    NotAvailable,
    /// The kubeconfig, or a file it names, cannot be used.
    Credentials,
    /// The API server did not tell what was asked.
    Api,
    /// An annotation or container of the pod says something that cannot be done.
    Pod,
    /// The kernel did not take the rules, or could not be asked for them.
    Rules,
    /// CHECK: the rules are not what they should be.
    Drift,
    /// A fault of this program.
    Internal,
}

/// A failure as the runtime will see it. The message says the operation, the thing, the cause, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub code: Code,
    /// One line for a person.
    pub msg: String,
    /// The value or rule it is about, where the reference library puts it apart.
    pub details: String,
}

// === impl Code ===

impl Code {
    /// The number on the wire.
    pub const fn number(self) -> u32 {
        match self {
            Self::IncompatibleVersion => 1,
            Self::Environment => 4,
            Self::Io => 5,
            Self::Decoding => 6,
            Self::NetConf => 7,
            Self::Netns => 8,
            Self::NotAvailable => 50,
            Self::Credentials => 100,
            Self::Api => 101,
            Self::Pod => 102,
            Self::Rules => 103,
            Self::Drift => 104,
            Self::Internal => 999,
        }
    }
}

// === impl Failure ===

impl Failure {
    /// A failure without details.
    pub fn new(code: Code, msg: impl Into<String>) -> Self {
        Self {
            code,
            msg: msg.into(),
            details: String::new(),
        }
    }

    /// The same with what it was about in front.
    #[must_use]
    pub fn about(mut self, thing: impl fmt::Display) -> Self {
        self.msg = format!("{thing}: {}", self.msg);
        self
    }
}

impl From<call::Invalid> for Failure {
    fn from(invalid: call::Invalid) -> Self {
        match invalid {
            call::Invalid::Missing(names) => Self::new(
                Code::Environment,
                format!("required env variables [{}] missing", names.join(",")),
            ),
            call::Invalid::Value(msg, details) => Self {
                code: Code::Environment,
                msg,
                details,
            },
        }
    }
}

impl From<netconf::Error> for Failure {
    fn from(error: netconf::Error) -> Self {
        let code = match &error {
            netconf::Error::Decoding(_) => Code::Decoding,
            netconf::Error::MissingName | netconf::Error::BadName(_) | netconf::Error::Value { .. } => {
                Code::NetConf
            }
            netconf::Error::Version(_)
            | netconf::Error::VersionTooOld(_)
            | netconf::Error::VersionTooNew(_) => Code::IncompatibleVersion,
        };
        Self {
            code,
            msg: error.to_string(),
            details: error.details(),
        }
    }
}

impl From<iptables::Error> for Failure {
    fn from(error: iptables::Error) -> Self {
        Self::new(Code::Rules, error.to_string())
    }
}

impl From<intent::Invalid> for Failure {
    fn from(invalid: intent::Invalid) -> Self {
        Self::new(Code::Pod, invalid.to_string())
    }
}

impl From<netns::Error> for Failure {
    fn from(error: netns::Error) -> Self {
        Self::new(Code::Netns, error.to_string())
    }
}

impl From<nft::Error> for Failure {
    fn from(error: nft::Error) -> Self {
        Self::new(Code::Rules, error.to_string())
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        let code = match error.class {
            kube::Class::Kubeconfig | kube::Class::Credential => Code::Credentials,
            _ => Code::Api,
        };
        Self::new(code, error.to_string())
    }
}
