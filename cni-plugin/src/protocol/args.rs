//! `CNI_ARGS`: the pod a call is for.

use std::{ffi::OsStr, fmt};

use super::failure::{CniError, Code};

/// The pod a call is for, as `CNI_ARGS` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    /// `K8S_POD_NAMESPACE`, a DNS label
    pub namespace: String,
    /// `K8S_POD_NAME`, a DNS subdomain
    pub name: String,
    /// `K8S_POD_UID`; older runtimes do not send it
    pub uid: Option<String>,
}

/// Why `CNI_ARGS` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArgs {
    problem: String,
    text: String,
}

/// Returns the pod that the arguments name, or none when they name no pod.
///
/// The grammar is the reference library's `types.LoadArgs`. The names must be valid in Kubernetes, because they become a
/// URL path.
pub(super) fn pod(args: &OsStr) -> Result<Option<PodName>, InvalidArgs> {
    let args = args
        .to_str()
        .ok_or_else(|| InvalidArgs::new("is not UTF-8", &args.to_string_lossy()))?;
    let (mut namespace, mut name, mut uid) = ("", "", "");
    let (mut ignore_unknown, mut unknown) = (false, Vec::new());
    for pair in args.split(';').filter(|_| !args.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .filter(|(_, value)| !value.contains('='))
            .ok_or_else(|| InvalidArgs::new("has a part that is not KEY=VALUE:", pair))?;
        match key {
            "K8S_POD_NAMESPACE" => namespace = value,
            "K8S_POD_NAME" => name = value,
            "K8S_POD_UID" => uid = value,
            "K8S_POD_INFRA_CONTAINER_ID" => {}
            "IgnoreUnknown" => {
                ignore_unknown = boolean(value).ok_or_else(|| InvalidArgs::new("has no boolean in", pair))?;
            }
            _ => unknown.push(pair),
        }
    }
    if !ignore_unknown && !unknown.is_empty() {
        return Err(InvalidArgs::new(
            "has unknown args and no IgnoreUnknown=1:",
            &unknown.join(";"),
        ));
    }
    if namespace.is_empty() || name.is_empty() {
        return Ok(None);
    }
    for (key, value, longest) in [("K8S_POD_NAMESPACE", namespace, 63), ("K8S_POD_NAME", name, 253)] {
        if !is_dns_name(value, longest) {
            return Err(InvalidArgs::new(
                format!("has a {key} that Kubernetes does not allow:"),
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

fn boolean(value: &str) -> Option<bool> {
    match &*value.to_ascii_lowercase() {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// Returns true for a name the API server accepts in a path: a DNS subdomain (RFC 1123), or a label, which is one, too.
fn is_dns_name(name: &str, longest: usize) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= longest
        && name.split('.').all(|label| {
            label.bytes().all(|b| inner(b) || b == b'-')
                && label.bytes().next().is_some_and(inner)
                && label.bytes().last().is_some_and(inner)
        })
}

// === impl PodName ===

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl InvalidArgs ===

impl InvalidArgs {
    fn new(problem: impl Into<String>, text: &str) -> Self {
        Self {
            problem: problem.into(),
            text: text.chars().take(100).collect(),
        }
    }
}

impl fmt::Display for InvalidArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CNI_ARGS {} {:?}", self.problem, self.text)
    }
}

impl CniError for InvalidArgs {
    fn code(&self) -> Code {
        Code::Environment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(args: &str) -> Result<Option<PodName>, InvalidArgs> {
        pod(OsStr::new(args))
    }

    #[test]
    fn pod_is_found_in_any_order() {
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
            assert_eq!(named(args), Ok(Some(wanted.clone())), "{args}");
        }
        for args in [
            "",
            "K8S_POD_NAME=p",
            "IgnoreUnknown=1",
            "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=",
        ] {
            assert_eq!(named(args), Ok(None), "{args}");
        }
    }

    #[test]
    fn unsafe_or_unreadable_args_are_rejected() {
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
            assert!(named(&args).is_err(), "{args}");
        }
        for args in [
            "FOO=1",
            "FOO",
            "a=b=c",
            "K8S_POD_NAME=p;",
            ";",
            "IgnoreUnknown=yes",
        ] {
            assert!(named(args).is_err(), "{args}");
        }
    }
}
