//! The `exec` block: a program on the host that hands out a credential (client.authentication.k8s.io).

use std::path::{Path, PathBuf};

use super::{
    fields::text,
    invalid, missing,
    raw::{self, Cluster},
};
use crate::{error::Error, source::Secret};

/// How to run it. Checked: a version we speak, and nobody is to be asked at a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// The version both sides speak.
    pub version: ExecVersion,
    /// The program: a path, or a bare name to be found in `PATH`.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables added to our environment.
    pub env: Vec<(String, Secret)>,
    /// True when it wants to know which cluster the credential is for.
    pub wants_cluster: bool,
    /// What it is told then, besides server, name and authority.
    pub cluster_config: Option<serde_json::Value>,
    /// What a person is told when the program is not there.
    pub install_hint: Option<String>,
}

/// A version of client.authentication.k8s.io.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecVersion {
    /// `v1`
    V1,
    /// `v1beta1`
    V1Beta1,
}

impl ExecVersion {
    fn parse(version: &str) -> Result<Self, Error> {
        match version {
            "client.authentication.k8s.io/v1" => Ok(Self::V1),
            "client.authentication.k8s.io/v1beta1" => Ok(Self::V1Beta1),
            other => Err(invalid(format!(
                "exec: apiVersion is {other:?}; write client.authentication.k8s.io/v1 (or v1beta1)"
            ))),
        }
    }

    /// As `apiVersion` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "client.authentication.k8s.io/v1",
            Self::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }
}

/// The cluster extension whose content is handed to the program.
const EXTENSION: &str = "client.authentication.k8s.io/exec";

pub(super) fn check(raw: &raw::Exec, cluster: &Cluster, folder: &Path) -> Result<Exec, Error> {
    let Some(command) = text(raw.command.as_deref()) else {
        return Err(missing("exec: command is missing; name the program"));
    };
    let version = ExecVersion::parse(raw.api_version.as_deref().unwrap_or_default())?;
    nobody_is_asked(raw.interactive_mode.as_deref().unwrap_or_default(), version)?;
    // A bare name is looked up in PATH; anything with a slash lies beside the kubeconfig unless it is absolute.
    let command = if command.contains('/') {
        folder.join(command)
    } else {
        command.into()
    };
    let wants_cluster = raw.provide_cluster_info.unwrap_or_default();
    let extension = cluster
        .extensions
        .iter()
        .flatten()
        .find(|e| e.name.as_deref() == Some(EXTENSION));
    Ok(Exec {
        version,
        command,
        args: raw.args.clone().unwrap_or_default(),
        env: raw
            .env
            .iter()
            .flatten()
            .map(|v| (v.name.clone(), Secret::new(v.value.as_str())))
            .collect(),
        wants_cluster,
        cluster_config: extension
            .filter(|_| wants_cluster)
            .and_then(|e| e.extension.clone()),
        install_hint: text(raw.install_hint.as_deref()),
    })
}

fn nobody_is_asked(mode: &str, version: ExecVersion) -> Result<(), Error> {
    match (mode, version) {
        ("Never" | "IfAvailable", _) | ("", ExecVersion::V1Beta1) => Ok(()),
        ("", ExecVersion::V1) => Err(missing("exec: interactiveMode is missing; write Never")),
        ("Always", _) => Err(invalid(
            "exec: interactiveMode is Always, and there is no terminal here; write Never",
        )),
        // May be half of a mode.
        (other, _) => Err(missing(format!(
            "exec: interactiveMode is {other:?}; write Never"
        ))),
    }
}
