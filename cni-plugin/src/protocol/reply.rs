//! Everything that goes to stdout: one JSON document, or nothing.

use serde_json::json;

use crate::error::Failure;

/// The protocol versions spoken, oldest first. Runtimes and libraries compare them as strings.
pub const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// The newest version spoken.
pub const NEWEST: &str = VERSIONS[VERSIONS.len() - 1];

/// What the process prints and how it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// For the runtime.
    pub stdout: String,
    /// For a person who runs the program by hand.
    pub stderr: String,
    /// 0 or 1, as the reference library's.
    pub exit_code: u8,
}

impl Reply {
    /// Success with nothing to say: DEL, CHECK, STATUS and GC.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// The result of ADD.
    pub fn result(document: String) -> Self {
        Self {
            stdout: document + "\n",
            ..Self::default()
        }
    }

    /// The bare call: what this is, on stderr, since nobody's JSON parser is waiting for it.
    pub fn about() -> Self {
        let stderr = format!(
            "CNI plugin evergreen-cni v{}\nCNI protocol versions supported: {}\n",
            env!("CARGO_PKG_VERSION"),
            VERSIONS.join(", ")
        );
        Self {
            stderr,
            ..Self::default()
        }
    }

    /// VERSION.
    pub fn versions() -> Self {
        Self::result(json!({ "cniVersion": NEWEST, "supportedVersions": VERSIONS }).to_string())
    }

    /// One CNI error object. `version` is the protocol version in use, where it is known by then.
    pub fn failure(failure: &Failure, version: Option<&str>) -> Self {
        let mut object = json!({
            "cniVersion": version.unwrap_or(NEWEST),
            "code": failure.code.number(),
            "msg": failure.msg,
        });
        if !failure.details.is_empty() {
            object["details"] = failure.details.as_str().into();
        }
        Self {
            stdout: object.to_string() + "\n",
            stderr: String::new(),
            exit_code: 1,
        }
    }
}
