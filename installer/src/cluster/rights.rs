//! What the plugin's identity needs, what it may have, and what it should not have: asked of the API server, said to people.

use evergreen_kube::{Client, Error};

use super::requests::Requests;

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
    /// As kubectl writes it: a subresource after a slash.
    resource: &'static str,
    why: &'static str,
}

const RIGHTS: [Right; 8] = [
    Right {
        need: Need::Must,
        verb: "get",
        resource: "pods",
        why: "the plugin reads the pod it is called for",
    },
    Right {
        need: Need::May,
        verb: "get",
        resource: "namespaces",
        why: "for annotations of a namespace on pods the injector did not make",
    },
    Right {
        need: Need::May,
        verb: "get",
        resource: "services",
        why: "for the API server's ports, which the control plane's own pods skip",
    },
    Right {
        need: Need::Not,
        verb: "get",
        resource: "secrets",
        why: "it can read every secret of the cluster",
    },
    Right {
        need: Need::Not,
        verb: "list",
        resource: "secrets",
        why: "it can list every secret of the cluster",
    },
    Right {
        need: Need::Not,
        verb: "create",
        resource: "pods",
        why: "it can run anything anywhere",
    },
    Right {
        need: Need::Not,
        verb: "delete",
        resource: "pods",
        why: "it can end any pod",
    },
    Right {
        need: Need::Not,
        verb: "create",
        resource: "serviceaccounts/token",
        why: "it can become any account",
    },
];

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
        let (resource, subresource) = right.resource.split_once('/').unwrap_or((right.resource, ""));
        let allowed = client.can_i(right.verb, resource, subresource)?;
        let list = match (right.need, allowed) {
            (Need::Must, false) => &mut findings.missing,
            (Need::May, false) => &mut findings.without,
            (Need::Not, true) => &mut findings.too_much,
            (Need::Must | Need::May, true) | (Need::Not, false) => continue,
        };
        list.push(format!("{} {}: {}", right.verb, right.resource, right.why));
    }
    Ok(findings)
}
