//! The reply: one JSON document on stdout, or nothing, and an exit code.

use serde_json::json;

use super::{
    failure::Failure,
    version::{NEWEST, VERSIONS},
};

/// What the process prints and its exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Text for the runtime.
    pub stdout: String,
    /// Text for a person who runs the program by hand.
    pub stderr: String,
    /// 0 or 1, as in the reference library.
    pub exit_code: u8,
}

impl Reply {
    /// An empty success: DEL, CHECK, STATUS and GC.
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

    /// The answer to a call without a command: name and versions, on stderr because no runtime parses it.
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

    /// The answer to VERSION.
    pub fn versions() -> Self {
        Self::result(json!({ "cniVersion": NEWEST, "supportedVersions": VERSIONS }).to_string())
    }

    /// A CNI error object. `version` is the protocol version of the call, if it is known.
    pub fn failure(failure: &Failure, version: Option<&str>) -> Self {
        let mut object = json!({
            "cniVersion": version.unwrap_or(NEWEST),
            "code": failure.code as u32,
            "msg": failure.msg,
        });
        if !failure.details.is_empty() {
            object["details"] = failure.details.as_str().into();
        }
        Self {
            exit_code: 1,
            ..Self::result(object.to_string())
        }
    }
}
