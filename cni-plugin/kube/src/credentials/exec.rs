//! Exec credential plugins: a program on the host is run, in this call, and prints a credential
//! (client.authentication.k8s.io/v1 and v1beta1, type ExecCredential).
//!
//! The safest form there is: the credential is made for one call and never rests on disk. What makes it fit for a CNI
//! call: stdin is closed (ours is the network configuration), nobody is asked at a terminal, it has half of the time
//! that is left, it and its children are ended together, and its output is bounded. What it prints on stdout is never
//! shown; what it prints on stderr reaches the log, and never the reply.

use std::{ffi::OsStr, io, os::unix::ffi::OsStrExt, process::Command};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

use super::token::parse;
use crate::{
    clock,
    deadline::Deadline,
    error::{Class, Error},
    kubeconfig::{Exec, Kubeconfig, Trust},
    log::Log,
    process::{self, Killed},
    quote::one_line,
    source::Secret,
};

/// No credential is larger, in bytes.
const LARGEST_OUTPUT: u64 = 1 << 20;

/// What the program handed out.
pub(super) struct ExecCredential {
    pub(super) token: Option<Secret>,
    pub(super) certificate: Option<(Vec<u8>, Secret)>,
    pub(super) from: String,
}

/// Runs the program and reads what it prints.
pub(super) fn run(
    exec: &Exec,
    kubeconfig: &Kubeconfig,
    deadline: Deadline,
    log: Log,
) -> Result<ExecCredential, Error> {
    let from = format!("exec plugin {}", exec.command.display());
    let failed = |cause: String| {
        Error::new(
            Class::Credential,
            format!("{from} gave no credential: {cause}; run it by hand on this node"),
        )
    };
    let info = info(exec, kubeconfig)?;
    let limit = deadline.share(2);
    let mut command = Command::new(&exec.command);
    command
        .args(&exec.args)
        .env("KUBERNETES_EXEC_INFO", info.to_string());
    for (name, value) in &exec.env {
        command.env(name, OsStr::from_bytes(value.reveal()));
    }
    let output = process::run(&mut command, b"", LARGEST_OUTPUT, limit)
        .map_err(|e| not_started(&from, &e, exec.install_hint.as_deref()))?;
    log_stderr(&output.stderr, &from, log);
    match output.exit {
        Err(Killed::Deadline) => Err(failed("it took too long, and was ended".to_owned())),
        Err(Killed::Output) => Err(failed("it prints more than 1 MiB".to_owned())),
        Err(Killed::Io(error)) => Err(failed(format!("its output cannot be read: {error}"))),
        Ok(status) if !status.success() => Err(failed(format!("it ended with {status}"))),
        Ok(_) => read(&output.stdout, exec, from.clone(), clock::now()).map_err(failed),
    }
}

/// Logs its stderr, at most ten lines of it.
fn log_stderr(stderr: &[u8], from: &str, log: Log) {
    let text = String::from_utf8_lossy(stderr);
    for line in text.lines().filter(|l| !l.trim().is_empty()).take(10) {
        log.with(&[("source", &from), ("says", &one_line(line))])
            .warn("exec plugin wrote to stderr");
    }
}

fn not_started(from: &str, error: &io::Error, hint: Option<&str>) -> Error {
    let cure = match (error.kind(), hint) {
        (io::ErrorKind::NotFound, Some(hint)) => one_line(hint),
        (io::ErrorKind::NotFound, None) => "install it on this node, or name it by its whole path".to_owned(),
        (io::ErrorKind::PermissionDenied, _) => "make it executable".to_owned(),
        _ => "run it by hand on this node".to_owned(),
    };
    Error::new(
        Class::Credential,
        format!("{from} cannot be run: {error}; {cure}"),
    )
}

/// The ExecCredential it is told, in its environment.
fn info(exec: &Exec, kubeconfig: &Kubeconfig) -> Result<Value, Error> {
    let mut spec = json!({"interactive": false});
    if exec.wants_cluster {
        let mut cluster = json!({"server": kubeconfig.server.to_string()});
        match &kubeconfig.trust {
            Trust::Bundle(source) => {
                cluster["certificate-authority-data"] = STANDARD.encode(source.read("CA bundle")?).into();
            }
            Trust::Insecure => cluster["insecure-skip-tls-verify"] = true.into(),
            Trust::System => {}
        }
        if let Some(name) = &kubeconfig.tls_server_name {
            cluster["tls-server-name"] = name.as_str().into();
        }
        if let Some(proxy) = &kubeconfig.proxy {
            cluster["proxy-url"] = String::from_utf8_lossy(proxy.reveal()).into();
        }
        if let Some(config) = &exec.cluster_config {
            cluster["config"] = config.clone();
        }
        spec["cluster"] = cluster;
    }
    Ok(json!({"apiVersion": exec.version.as_str(), "kind": "ExecCredential", "spec": spec}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCredential {
    api_version: Option<String>,
    kind: Option<String>,
    status: Option<RawStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// The credential in its output. No cause quotes what was printed.
fn read(output: &[u8], exec: &Exec, from: String, now: i64) -> Result<ExecCredential, String> {
    if output.trim_ascii().is_empty() {
        return Err("it printed nothing".to_owned());
    }
    let raw: RawCredential = serde_json::from_slice(output).map_err(|e| {
        format!(
            "what it printed is no ExecCredential (line {}, column {})",
            e.line(),
            e.column()
        )
    })?;
    if raw.kind.as_deref() != Some("ExecCredential") {
        return Err("what it printed is of another kind than ExecCredential".to_owned());
    }
    if raw.api_version.as_deref() != Some(exec.version.as_str()) {
        return Err(format!(
            "it did not answer in the apiVersion it was asked in, {}",
            exec.version.as_str()
        ));
    }
    let status = raw.status.ok_or("what it printed has no status")?;
    if let Some(text) = &status.expiration_timestamp {
        let ends = clock::parse_rfc3339(text).ok_or("its expirationTimestamp is no time")?;
        if ends <= now {
            return Err(format!("what it handed out ended at {}", clock::rfc3339(ends)));
        }
    }
    let set = |field: Option<String>| field.filter(|text| !text.trim().is_empty());
    let certificate = match (set(status.client_certificate_data), set(status.client_key_data)) {
        (Some(chain), Some(key)) => Some((chain.into_bytes(), Secret::new(key))),
        (None, None) => None,
        _ => return Err("it handed out a certificate or a key, and not both".to_owned()),
    };
    let token = set(status.token)
        .map(|t| parse(t.as_bytes(), &from).map_err(|e| e.to_string()))
        .transpose()?;
    if token.is_none() && certificate.is_none() {
        return Err("it handed out neither a token nor a certificate".to_owned());
    }
    Ok(ExecCredential {
        token,
        certificate,
        from,
    })
}
