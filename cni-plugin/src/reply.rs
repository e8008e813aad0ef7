//! Everything that goes to stdout: one JSON document, or nothing.

use crate::error::Failure;
use serde_json::{json, value::RawValue};

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

/// The result that hands the previous one on, byte for byte: what we do not understand we must not lose.
/// Only a missing `cniVersion` is added. Without a previous result (we stand first or alone in the chain) an empty
/// result in the asked version is right: ours has no address to report.
pub fn hand_on(previous: Option<&RawValue>, has_version: bool, version: &str) -> String {
    let version = serde_json::Value::from(version);
    let Some(previous) = previous.map(RawValue::get) else {
        return format!("{{\"cniVersion\":{version}}}");
    };
    let inside = previous.strip_prefix('{').filter(|_| !has_version);
    match inside.map(str::trim_start) {
        None => previous.to_owned(),
        Some("}") => format!("{{\"cniVersion\":{version}}}"),
        Some(rest) => format!("{{\"cniVersion\":{version},{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_previous_result_comes_back_byte_for_byte() {
        let odd =
            r#"{ "x-big":18446744073709551615 ,"a":"\u003c\ud83d\ude00", "cniVersion":"1.0.0","z":1.50}"#;
        assert_eq!(hand_on(Some(&raw(odd)), true, "1.0.0"), odd);
    }

    #[test]
    fn a_missing_version_is_added_and_nothing_else() {
        assert_eq!(
            hand_on(Some(&raw(r#"{"ips":[] }"#)), false, "0.4.0"),
            r#"{"cniVersion":"0.4.0","ips":[] }"#
        );
        assert_eq!(
            hand_on(Some(&raw("{ }")), false, "0.4.0"),
            r#"{"cniVersion":"0.4.0"}"#
        );
        assert_eq!(hand_on(None, false, "0.3.1"), r#"{"cniVersion":"0.3.1"}"#);
    }
}
