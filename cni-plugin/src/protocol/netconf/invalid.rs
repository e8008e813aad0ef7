//! Why stdin cannot be used, with the reference library's messages where it has one.

use std::fmt;

use crate::protocol::{
    failure::{CniError, Code},
    version::VERSIONS,
};

/// Why stdin cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidNetConf {
    /// Not the JSON that the protocol requires.
    Decoding(String),
    /// No `name`.
    MissingName,
    /// A `name` with characters that the protocol does not allow.
    BadName(String),
    /// An unsupported `cniVersion`.
    Version(String),
    /// A `cniVersion` older than the command: the command.
    VersionTooOld(&'static str),
    /// A `cniVersion` newer than any supported one, for a command that some version introduced: the command.
    VersionTooNew(&'static str),
    /// A key with an invalid value.
    Value {
        /// A path such as `linkerd.proxy-uid`.
        key: String,
        /// The problem and a correct form.
        why: String,
    },
}

// === impl InvalidNetConf ===

impl InvalidNetConf {
    /// An error about the value of a key.
    pub(super) fn value(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Value {
            key: key.into(),
            why: why.into(),
        }
    }
}

impl CniError for InvalidNetConf {
    fn code(&self) -> Code {
        match self {
            Self::Decoding(_) => Code::Decoding,
            Self::MissingName | Self::BadName(_) | Self::Value { .. } => Code::NetConf,
            Self::Version(_) | Self::VersionTooOld(_) | Self::VersionTooNew(_) => Code::IncompatibleVersion,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::BadName(name) => name.clone(),
            Self::Version(asked) => format!("config is {asked:?}, plugin supports [{}]", quoted_versions()),
            _ => String::new(),
        }
    }
}

fn quoted_versions() -> String {
    VERSIONS.map(|v| format!("{v:?}")).join(" ")
}

impl fmt::Display for InvalidNetConf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decoding(text) => f.write_str(text),
            Self::MissingName => f.write_str("missing network name"),
            Self::BadName(_) => f.write_str("invalid characters found in network name"),
            Self::Version(_) => f.write_str("incompatible CNI versions"),
            Self::VersionTooOld(command) => write!(f, "config version does not allow {command}"),
            Self::VersionTooNew(command) => write!(f, "plugin version does not allow {command}"),
            Self::Value { key, why } => write!(f, "network configuration: {key} {why}"),
        }
    }
}
