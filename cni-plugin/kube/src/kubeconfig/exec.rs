//! Checks the `exec` block: a program on the host that returns a credential (client.authentication.k8s.io).

use std::path::Path;

use super::{
    model::{Exec, ExecVersion},
    problem::{invalid, missing},
    raw::{self, Cluster, text},
};
use crate::{error::Error, source::Secret};

/// The cluster extension that the program gets.
const EXTENSION: &str = "client.authentication.k8s.io/exec";

pub(super) fn check(raw: &raw::Exec, cluster: &Cluster, folder: &Path) -> Result<Exec, Error> {
    let Some(command) = text(raw.command.as_deref()) else {
        return Err(missing("exec: command is missing; set it to the program"));
    };
    let version = version(raw.api_version.as_deref().unwrap_or_default())?;
    check_interactive_mode(raw.interactive_mode.as_deref().unwrap_or_default(), version)?;
    // A name is looked up in PATH; a relative path starts at the kubeconfig's folder.
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

fn check_interactive_mode(mode: &str, version: ExecVersion) -> Result<(), Error> {
    match (mode, version) {
        ("Never" | "IfAvailable", _) | ("", ExecVersion::V1Beta1) => Ok(()),
        ("", ExecVersion::V1) => Err(missing("exec: interactiveMode is missing; set it to Never")),
        ("Always", _) => Err(invalid(
            "exec: interactiveMode is Always, but there is no terminal; set it to Never",
        )),
        // May be a truncated mode.
        (other, _) => Err(missing(format!(
            "exec: interactiveMode is {other:?}; set it to Never"
        ))),
    }
}

fn version(text: &str) -> Result<ExecVersion, Error> {
    [ExecVersion::V1, ExecVersion::V1Beta1]
        .into_iter()
        .find(|version| version.as_str() == text)
        .ok_or_else(|| {
            invalid(format!(
                "exec: apiVersion is {text:?}; set it to client.authentication.k8s.io/v1 (or v1beta1)"
            ))
        })
}
