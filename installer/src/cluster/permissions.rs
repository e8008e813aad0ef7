//! The permissions of the plugin's identity: what it needs, what it can use, and what it should not have.

use evergreen_kube::{Client, Error};

use super::requests;

/// How much a permission matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Without it no meshed pod starts with all its settings.
    Required,
    /// Without it some detail is missing.
    Optional,
    /// With it a stolen token does more harm than necessary.
    Excessive,
}

/// A permission, and what follows from it.
#[derive(Debug)]
pub struct Permission {
    /// How much it matters.
    pub need: Need,
    verb: &'static str,
    /// As kubectl writes it: a subresource after a slash.
    resource: &'static str,
    /// What it is needed for, or what a thief can do with it.
    pub why: &'static str,
}

const PERMISSIONS: [Permission; 8] = [
    permission(
        Need::Required,
        "get",
        "pods",
        "the plugin reads the pod it is called for",
    ),
    permission(
        Need::Optional,
        "get",
        "namespaces",
        "for namespace annotations, on pods that the injector webhook did not create",
    ),
    permission(
        Need::Optional,
        "get",
        "services",
        "for the API server's ports, which control plane pods skip",
    ),
    permission(
        Need::Excessive,
        "get",
        "secrets",
        "it can read every secret of the cluster",
    ),
    permission(
        Need::Excessive,
        "list",
        "secrets",
        "it can list every secret of the cluster",
    ),
    permission(Need::Excessive, "create", "pods", "it can run anything anywhere"),
    permission(Need::Excessive, "delete", "pods", "it can delete any pod"),
    permission(
        Need::Excessive,
        "create",
        "serviceaccounts/token",
        "it can act as any ServiceAccount",
    ),
];

const fn permission(need: Need, verb: &'static str, resource: &'static str, why: &'static str) -> Permission {
    Permission {
        need,
        verb,
        resource,
        why,
    }
}

impl Permission {
    /// Returns verb and resource, such as `get pods`.
    pub fn name(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }
}

/// Asks the API server about each permission. Returns those that are missing and those that are excessive.
pub fn review(client: &mut Client) -> Result<Vec<&'static Permission>, Error> {
    let mut findings = Vec::new();
    for permission in &PERMISSIONS {
        let resource = permission.resource;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let allowed = requests::can_i(client, permission.verb, resource, subresource)?;
        if allowed == (permission.need == Need::Excessive) {
            findings.push(permission);
        }
    }
    Ok(findings)
}
