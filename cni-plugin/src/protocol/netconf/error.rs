//! Why stdin cannot be used, in the words of the reference library where it has some.

use std::fmt;

use crate::protocol::reply::VERSIONS;

/// Why stdin cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Not the JSON that the protocol asks for.
    Decoding(String),
    /// No `name`.
    MissingName,
    /// A `name` with characters that the protocol does not allow.
    BadName(String),
    /// A `cniVersion` that is not spoken.
    Version(String),
    /// A `cniVersion` older than the command: the command.
    VersionTooOld(&'static str),
    /// A `cniVersion` newer than all that is spoken, for a command that has a version of its own: the command.
    VersionTooNew(&'static str),
    /// A key with a value that cannot be used: the key as a path, and what is wrong with it.
    Value {
        /// Such as `linkerd.proxy-uid`.
        key: String,
        /// What is wrong and what would be right.
        why: String,
    },
}

// === impl Error ===

impl Error {
    /// What the reference library puts into `details`.
    pub fn details(&self) -> String {
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

impl fmt::Display for Error {
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
