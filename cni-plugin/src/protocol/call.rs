//! The CNI environment of a call, checked in the order and with the messages of the reference library (`pkg/skel` and
//! `pkg/utils` of containernetworking/cni), so that runtimes and people see familiar errors.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use evergreen_kube::pod::PRIMARY_INTERFACE;

use super::{
    args::{self, InvalidArgs, PodName},
    failure::{CniError, Code},
};

/// Looks up an environment variable. An argument, so that tests need not change the process.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A CNI command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// Attach a container.
    Add,
    /// Detach it.
    Del,
    /// Compare it with what ADD did.
    Check,
    /// Remove attachments that no longer exist.
    Gc,
    /// Report whether an ADD can succeed.
    Status,
    /// Report the supported protocol versions.
    Version,
    /// Any other command; rejected only after stdin has been checked, as in the reference library.
    Unknown(String),
}

/// The checked environment. Variables that the command does not require are not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// `CNI_COMMAND`
    pub verb: Verb,
    /// `CNI_NETNS`; none when unset or empty, which only DEL, GC and STATUS allow.
    pub netns: Option<PathBuf>,
    /// `CNI_NETNS_OVERRIDE`: the namespace may be the plugin's own.
    pub netns_may_be_own: bool,
    /// `CNI_IFNAME`
    pub ifname: String,
    /// `PATH`, where the fallback looks for iptables first.
    pub search_path: String,
    args: OsString,
}

/// Why the environment cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidCall {
    /// Required variables that are unset or empty.
    Missing(Vec<&'static str>),
    /// A value that the protocol does not allow: the problem, and the value or rule.
    Value(String, String),
}

// === impl Verb ===

impl Verb {
    fn parse(word: &str) -> Self {
        match word {
            "ADD" => Self::Add,
            "DEL" => Self::Del,
            "CHECK" => Self::Check,
            "GC" => Self::Gc,
            "STATUS" => Self::Status,
            "VERSION" => Self::Version,
            other => Self::Unknown(other.to_owned()),
        }
    }

    /// Returns true for commands about one container.
    fn has_container(&self) -> bool {
        matches!(self, Self::Add | Self::Del | Self::Check)
    }

    fn requires(&self, variable: &str) -> bool {
        match variable {
            "CNI_CONTAINERID" | "CNI_IFNAME" => self.has_container(),
            "CNI_NETNS" => matches!(self, Self::Add | Self::Check),
            "CNI_PATH" => self.has_container() || matches!(self, Self::Gc | Self::Status),
            _ => false,
        }
    }
}

// === impl Call ===

impl Call {
    /// Reads and checks the environment. None when there is no command, as when a person starts the program.
    ///
    /// An invalid value is an error at once; missing variables are reported together at the end.
    pub fn read(env: Environment<'_>) -> Result<Option<Self>, InvalidCall> {
        let value = |variable| env(variable).unwrap_or_default();
        let command = value("CNI_COMMAND");
        if command.is_empty() {
            return Ok(None);
        }
        let verb = Verb::parse(&command.to_string_lossy());
        let mut missing = Vec::new();
        let mut required = |variable: &'static str, check: fn(&OsStr) -> Result<(), InvalidCall>| {
            let value = value(variable);
            if verb.requires(variable) {
                if value.is_empty() {
                    missing.push(variable);
                } else {
                    check(&value)?;
                }
            }
            Ok(value)
        };
        required("CNI_CONTAINERID", check_container_id)?;
        let netns = required("CNI_NETNS", |_| Ok(()))?;
        let ifname = required("CNI_IFNAME", check_interface_name)?;
        required("CNI_PATH", |_| Ok(()))?;
        if !missing.is_empty() {
            return Err(InvalidCall::Missing(missing));
        }
        let netns_override = value("CNI_NETNS_OVERRIDE").to_string_lossy().to_ascii_lowercase();
        Ok(Some(Self {
            verb,
            netns: (!netns.is_empty()).then(|| netns.into()),
            netns_may_be_own: matches!(&*netns_override, "1" | "true"),
            ifname: ifname.to_string_lossy().into_owned(),
            search_path: value("PATH").to_string_lossy().into_owned(),
            args: value("CNI_ARGS"),
        }))
    }

    /// Returns the pod that `CNI_ARGS` names, or none when the call is not for a Kubernetes pod.
    pub fn pod(&self) -> Result<Option<PodName>, InvalidArgs> {
        args::pod(&self.args)
    }

    /// Returns true when the call is for the interface with the pod's address.
    pub fn is_primary(&self) -> bool {
        self.ifname == PRIMARY_INTERFACE
    }
}

/// Returns true for a valid container ID or network name: `[a-zA-Z0-9][a-zA-Z0-9_.-]*`, of any length.
pub fn is_cni_identifier(text: &[u8]) -> bool {
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    text.first().is_some_and(u8::is_ascii_alphanumeric) && text.iter().all(inner)
}

fn check_container_id(value: &OsStr) -> Result<(), InvalidCall> {
    if is_cni_identifier(value.as_bytes()) {
        return Ok(());
    }
    Err(InvalidCall::Value(
        "invalid characters in containerID".into(),
        value.to_string_lossy().into_owned(),
    ))
}

fn check_interface_name(value: &OsStr) -> Result<(), InvalidCall> {
    let name = value.to_string_lossy();
    let invalid = |what: &str, rule: &str| Err(InvalidCall::Value(what.into(), rule.into()));
    if value.len() > 15 {
        return invalid(
            "interface name is too long",
            "interface name should be less than 16 characters",
        );
    }
    if name == "." || name == ".." {
        return invalid("interface name is . or ..", "");
    }
    if name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace()) {
        return invalid("interface name contains / or : or whitespace characters", "");
    }
    Ok(())
}

// === impl InvalidCall ===

impl fmt::Display for InvalidCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(names) => write!(f, "required env variables [{}] missing", names.join(",")),
            Self::Value(problem, _) => f.write_str(problem),
        }
    }
}

impl CniError for InvalidCall {
    fn code(&self) -> Code {
        Code::Environment
    }

    fn details(&self) -> String {
        match self {
            Self::Missing(_) => String::new(),
            Self::Value(_, details) => details.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: [(&str, &str); 5] = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/x"),
        ("CNI_IFNAME", PRIMARY_INTERFACE),
        ("CNI_PATH", "/opt/cni/bin"),
    ];

    fn read(changes: &[(&str, &str)]) -> Result<Option<Call>, InvalidCall> {
        Call::read(&|variable| {
            let all = changes.iter().chain(&ADD);
            all.clone()
                .find(|(name, _)| *name == variable)
                .map(|(_, value)| value.into())
        })
    }

    #[test]
    fn missing_variables_are_named_together_in_order() {
        let none = [
            ("CNI_CONTAINERID", ""),
            ("CNI_NETNS", ""),
            ("CNI_IFNAME", ""),
            ("CNI_PATH", ""),
        ];
        for (verb, expected) in [
            (
                "ADD",
                &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"][..],
            ),
            (
                "CHECK",
                &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
            ),
            ("DEL", &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"]),
            ("GC", &["CNI_PATH"]),
            ("STATUS", &["CNI_PATH"]),
        ] {
            let given: Vec<_> = [("CNI_COMMAND", verb)].iter().chain(&none).copied().collect();
            assert_eq!(
                read(&given),
                Err(InvalidCall::Missing(expected.to_vec())),
                "{verb}"
            );
        }
    }

    #[test]
    fn invalid_value_is_reported_before_missing_ones() {
        let call = read(&[("CNI_CONTAINERID", "-a"), ("CNI_NETNS", "")]);
        assert_eq!(
            call,
            Err(InvalidCall::Value(
                "invalid characters in containerID".into(),
                "-a".into()
            ))
        );
    }
}
