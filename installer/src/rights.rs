//! What the plugin's identity needs, what it may have, and what it should not have: asked of the API server, said to people.

use evergreen_cni::kube::{Client, Error, review::Action};

/// How much a right matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Without it no meshed pod starts in full.
    Must,
    /// Without it some detail is missing.
    May,
    /// With it a stolen token is worse than it need be.
    Not,
}

/// One right, and what follows from it.
struct Right {
    need: Need,
    verb: &'static str,
    resource: &'static str,
    subresource: &'static str,
    why: &'static str,
}

const RIGHTS: [Right; 8] = [
    right(
        Need::Must,
        "get",
        "pods",
        "",
        "the plugin reads the pod it is called for",
    ),
    right(
        Need::May,
        "get",
        "namespaces",
        "",
        "for annotations of a namespace on pods the injector did not make",
    ),
    right(
        Need::May,
        "get",
        "services",
        "",
        "for the API server's ports, which the control plane's own pods skip",
    ),
    right(
        Need::Not,
        "get",
        "secrets",
        "",
        "it can read every secret of the cluster",
    ),
    right(
        Need::Not,
        "list",
        "secrets",
        "",
        "it can list every secret of the cluster",
    ),
    right(Need::Not, "create", "pods", "", "it can run anything anywhere"),
    right(Need::Not, "delete", "pods", "", "it can end any pod"),
    right(
        Need::Not,
        "create",
        "serviceaccounts",
        "token",
        "it can become any account",
    ),
];

const fn right(
    need: Need,
    verb: &'static str,
    resource: &'static str,
    subresource: &'static str,
    why: &'static str,
) -> Right {
    Right {
        need,
        verb,
        resource,
        subresource,
        why,
    }
}

/// What is missing and what is too much.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The plugin cannot work.
    pub missing: Vec<String>,
    /// Some detail does not work.
    pub without: Vec<String>,
    /// More than it needs.
    pub too_much: Vec<String>,
}

/// Asks about each.
pub fn ask(client: &mut Client) -> Result<Findings, Error> {
    let mut findings = Findings::default();
    for right in &RIGHTS {
        let action = Action {
            verb: right.verb,
            resource: right.resource,
            subresource: right.subresource,
            ..Action::default()
        };
        let allowed = client.can_i(&action)?;
        let list = match (right.need, allowed) {
            (Need::Must, false) => &mut findings.missing,
            (Need::May, false) => &mut findings.without,
            (Need::Not, true) => &mut findings.too_much,
            (Need::Must | Need::May, true) | (Need::Not, false) => continue,
        };
        let slash = if right.subresource.is_empty() { "" } else { "/" };
        list.push(format!(
            "{} {}{slash}{}: {}",
            right.verb, right.resource, right.subresource, right.why
        ));
    }
    Ok(findings)
}
