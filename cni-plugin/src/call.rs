//! What the runtime asked: the CNI environment, checked in the order and with the words of the reference
//! library (`pkg/skel` and `pkg/utils` of containernetworking/cni), so that runtimes and people see what they know.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

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

/// The pod an ADD is for, as `CNI_ARGS` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    /// `K8S_POD_NAMESPACE`, a DNS label
    pub namespace: String,
    /// `K8S_POD_NAME`, a DNS subdomain
    pub name: String,
    /// `K8S_POD_UID`; older runtimes do not send it
    pub uid: Option<String>,
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
    ///
    /// The grammar is the reference's `types.LoadArgs`; the names must be what Kubernetes allows, because they
    /// become a URL path.
    pub fn pod(&self) -> Result<Option<PodName>, Invalid> {
        let args = self
            .args
            .to_str()
            .ok_or_else(|| invalid_args("is not UTF-8", &self.args.to_string_lossy()))?;
        let (mut namespace, mut name, mut uid) = ("", "", "");
        let (mut ignore_unknown, mut unknown) = (false, Vec::new());
        for pair in args.split(';').filter(|_| !args.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .filter(|(_, value)| !value.contains('='))
                .ok_or_else(|| invalid_args("has a piece that is not KEY=VALUE", pair))?;
            match key {
                "K8S_POD_NAMESPACE" => namespace = value,
                "K8S_POD_NAME" => name = value,
                "K8S_POD_UID" => uid = value,
                "K8S_POD_INFRA_CONTAINER_ID" => {}
                "IgnoreUnknown" => {
                    let given = boolean(value);
                    ignore_unknown = given.ok_or_else(|| invalid_args("has no boolean in", pair))?;
                }
                _ => unknown.push(pair),
            }
        }
        if !ignore_unknown && !unknown.is_empty() {
            return Err(invalid_args(
                "has unknown args and no IgnoreUnknown=1:",
                &unknown.join(";"),
            ));
        }
        if namespace.is_empty() || name.is_empty() {
            return Ok(None);
        }
        for (key, value, longest) in [("K8S_POD_NAMESPACE", namespace, 63), ("K8S_POD_NAME", name, 253)] {
            if !is_dns_name(value, longest) {
                return Err(invalid_args(
                    &format!("has a {key} that Kubernetes does not allow:"),
                    value,
                ));
            }
        }
        let uid = (!uid.is_empty()).then(|| uid.to_owned());
        Ok(Some(PodName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid,
        }))
    }
}

fn invalid_args(what: &str, value: &str) -> Invalid {
    Invalid::Value(
        format!(
            "CNI_ARGS {what} {:?}",
            value.chars().take(100).collect::<String>()
        ),
        String::new(),
    )
}

fn boolean(value: &str) -> Option<bool> {
    match &*value.to_ascii_lowercase() {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// What the API server accepts in a path: a DNS subdomain (RFC 1123), which a label also is.
fn is_dns_name(name: &str, longest: usize) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= longest
        && name.split('.').all(|label| {
            label.bytes().all(|b| inner(b) || b == b'-')
                && label.bytes().next().is_some_and(inner)
                && label.bytes().last().is_some_and(inner)
        })
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

// === impl PodName ===

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
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

    fn pod(args: &str) -> Result<Option<PodName>, Invalid> {
        read(&[("CNI_ARGS", args)]).unwrap().unwrap().pod()
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

    #[test]
    fn the_pod_is_found_whatever_the_order_of_the_args() {
        let wanted = PodName {
            namespace: "ns".into(),
            name: "a.b-c".into(),
            uid: Some("u".into()),
        };
        for args in [
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=a.b-c;K8S_POD_UID=u;K8S_POD_INFRA_CONTAINER_ID=x",
            "K8S_POD_UID=u;FOO=1;K8S_POD_NAME=a.b-c;K8S_POD_NAMESPACE=ns;IgnoreUnknown=TRUE",
            "K8S_POD_NAME=old;K8S_POD_UID=u;K8S_POD_NAME=a.b-c;K8S_POD_NAMESPACE=ns",
        ] {
            assert_eq!(pod(args), Ok(Some(wanted.clone())), "{args}");
        }
        for args in [
            "",
            "K8S_POD_NAME=p",
            "IgnoreUnknown=1",
            "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=",
        ] {
            assert_eq!(pod(args), Ok(None), "{args}");
        }
    }

    #[test]
    fn args_that_could_reach_another_url_or_cannot_be_read_are_refused() {
        let long = "a".repeat(254);
        for (namespace, name) in [
            ("ns", "../x"),
            ("ns", "a/b"),
            ("ns", "a b"),
            ("ns", "A"),
            ("ns", "a..b"),
            ("ns", "-a"),
            ("ns", "a%2f"),
            ("ns", "a?x"),
            ("..", "p"),
            ("a/../b", "p"),
            ("ns", &long),
        ] {
            let args = format!("K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}");
            assert!(pod(&args).is_err(), "{args}");
        }
        for args in [
            "FOO=1",
            "FOO",
            "a=b=c",
            "K8S_POD_NAME=p;",
            ";",
            "IgnoreUnknown=yes",
        ] {
            assert!(pod(args).is_err(), "{args}");
        }
    }
}
