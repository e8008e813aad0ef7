//! What the runtime asked: the CNI environment, checked in the order and with the words of the reference
//! library (`pkg/skel` and `pkg/utils` of containernetworking/cni), so that runtimes and people see what they know.

mod args;

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

pub use self::args::PodName;

/// Looks a variable of the environment up. Passed in, so that a test need not set any.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A CNI command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// Program a container.
    Add,
    /// Undo it.
    Del,
    /// See whether it still is as ADD left it.
    Check,
    /// Forget attachments that are gone.
    Gc,
    /// Say whether an ADD could be served.
    Status,
    /// Say which versions of the protocol are spoken.
    Version,
    /// Something else; refused only after stdin has been checked, as the reference does.
    Unknown(String),
}

/// The checked environment. Variables that a command does not require are taken as they come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// `CNI_COMMAND`
    pub verb: Verb,
    /// `CNI_NETNS`; none when unset or empty, which only DEL, GC and STATUS may have.
    pub netns: Option<PathBuf>,
    /// `CNI_NETNS_OVERRIDE`: the caller knows that the namespace may be the plugin's own.
    pub netns_may_be_own: bool,
    /// `CNI_IFNAME`
    pub ifname: String,
    args: OsString,
}

/// Why the environment cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalid {
    /// Required variables that are unset or empty.
    Missing(Vec<&'static str>),
    /// A value the protocol does not allow: what is wrong, and the value or rule.
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

    /// True for the commands that concern one container.
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
    /// Reads and checks the environment. None when no command is given: somebody asks what this program is.
    ///
    /// An invalid value ends the reading at once; what is missing is reported all together at the end.
    pub fn read(env: Environment<'_>) -> Result<Option<Self>, Invalid> {
        let value = |variable| env(variable).unwrap_or_default();
        let command = value("CNI_COMMAND");
        if command.is_empty() {
            return Ok(None);
        }
        let verb = Verb::parse(&command.to_string_lossy());
        let mut missing = Vec::new();
        let mut required = |variable: &'static str, check: fn(&OsStr) -> Result<(), Invalid>| {
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
            return Err(Invalid::Missing(missing));
        }
        let netns_override = value("CNI_NETNS_OVERRIDE").to_string_lossy().to_ascii_lowercase();
        Ok(Some(Self {
            verb,
            netns: (!netns.is_empty()).then(|| netns.into()),
            netns_may_be_own: matches!(&*netns_override, "1" | "true"),
            ifname: ifname.to_string_lossy().into_owned(),
            args: value("CNI_ARGS"),
        }))
    }

    /// The pod that `CNI_ARGS` names, or none when it names no pod: then this is not a Kubernetes sandbox.
    pub fn pod(&self) -> Result<Option<PodName>, Invalid> {
        args::pod(&self.args)
    }
}

/// The rule for container IDs and network names: `[a-zA-Z0-9][a-zA-Z0-9_.-]*`, of any length.
pub fn is_cni_identifier(text: &[u8]) -> bool {
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    text.first().is_some_and(u8::is_ascii_alphanumeric) && text.iter().all(inner)
}

fn check_container_id(value: &OsStr) -> Result<(), Invalid> {
    if is_cni_identifier(value.as_bytes()) {
        return Ok(());
    }
    Err(Invalid::Value(
        "invalid characters in containerID".into(),
        value.to_string_lossy().into_owned(),
    ))
}

fn check_interface_name(value: &OsStr) -> Result<(), Invalid> {
    let name = value.to_string_lossy();
    let invalid = |what: &str, rule: &str| Err(Invalid::Value(what.into(), rule.into()));
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

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: [(&str, &str); 5] = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/x"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
    ];

    fn read(changes: &[(&str, &str)]) -> Result<Option<Call>, Invalid> {
        Call::read(&|variable| {
            let all = changes.iter().chain(&ADD);
            all.clone()
                .find(|(name, _)| *name == variable)
                .map(|(_, value)| value.into())
        })
    }

    #[test]
    fn what_is_missing_is_named_together_in_the_reference_order() {
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
            assert_eq!(read(&given), Err(Invalid::Missing(expected.to_vec())), "{verb}");
        }
    }

    #[test]
    fn an_invalid_value_is_reported_before_what_is_missing() {
        let call = read(&[("CNI_CONTAINERID", "-a"), ("CNI_NETNS", "")]);
        assert_eq!(
            call,
            Err(Invalid::Value(
                "invalid characters in containerID".into(),
                "-a".into()
            ))
        );
    }
}
