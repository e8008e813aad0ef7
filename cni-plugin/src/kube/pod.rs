//! The fields of a pod and a namespace that decide something, and no others: the rest of the object is skipped
//! while it is read.

use std::collections::BTreeMap;

/// Labels or annotations.
pub type Strings = BTreeMap<String, String>;

/// A pod as the API server has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.labels`
    pub labels: Strings,
    /// `metadata.annotations`
    pub annotations: Strings,
    /// `spec.containers`
    pub containers: Vec<Container>,
    /// `spec.initContainers`, native sidecars among them
    pub init_containers: Vec<Container>,
    /// `spec.securityContext.runAsUser`
    pub run_as_user: Option<i64>,
}

/// A container or init container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// `name`
    pub name: String,
    /// `securityContext.runAsUser`
    pub run_as_user: Option<i64>,
    /// `env`, only entries with a literal value; kept for the proxy alone, since others may hold secrets
    pub env: Strings,
}

/// A namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.annotations`
    pub annotations: Strings,
}
