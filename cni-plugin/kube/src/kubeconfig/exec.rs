//! The `exec` block: a program on the host that hands out a credential (client.authentication.k8s.io).

use std::path::Path;

use super::{
    model::{Exec, ExecVersion},
    problem::{invalid, missing},
    raw::{self, Cluster, text},
};
use crate::{error::Error, source::Secret};

/// The cluster extension whose content is handed to the program.
const EXTENSION: &str = "client.authentication.k8s.io/exec";

pub(super) fn check(raw: &raw::Exec, cluster: &Cluster, folder: &Path) -> Result<Exec, Error> {
    let Some(command) = text(raw.command.as_deref()) else {
        return Err(missing("exec: command is missing; name the program"));
    };
    let version = version(raw.api_version.as_deref().unwrap_or_default())?;
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

fn version(text: &str) -> Result<ExecVersion, Error> {
    [ExecVersion::V1, ExecVersion::V1Beta1]
        .into_iter()
        .find(|version| version.as_str() == text)
        .ok_or_else(|| {
            invalid(format!(
                "exec: apiVersion is {text:?}; write client.authentication.k8s.io/v1 (or v1beta1)"
            ))
        })
}
