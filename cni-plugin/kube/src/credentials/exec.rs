//! Exec plugins: a program on the host that runs within the call and prints a credential
//! (client.authentication.k8s.io/v1 and v1beta1, type ExecCredential).
//!
//! The safest form of credential: made for one call, never on disk. To fit into a CNI call, the program gets an empty
//! stdin (ours is the network configuration), no terminal, half of the time that is left, and a limit on its output. Its
//! stdout is never shown; its stderr goes to the log, never to the reply.

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
const OUTPUT_LIMIT: u64 = 1 << 20;

/// A credential as the program printed it.
pub(super) struct ExecCredential {
    pub(super) token: Option<Secret>,
    /// Chain and key, PEM.
    pub(super) certificate: Option<(Vec<u8>, Secret)>,
    /// The program, for messages.
    pub(super) source: String,
}

/// Runs the program and reads the credential it prints.
pub(super) fn run(
    exec: &Exec,
    kubeconfig: &Kubeconfig,
    deadline: Deadline,
    log: Log,
) -> Result<ExecCredential, Error> {
    let source = format!("exec plugin {}", exec.command.display());
    let failed = |cause: String| {
        let message = format!("{source} returned no credential: {cause}; run it by hand on this node");
        Error::new(Class::Credential, message)
    };
    let info = exec_info(exec, kubeconfig)?;
    let mut command = Command::new(&exec.command);
    command
        .args(&exec.args)
        .env("KUBERNETES_EXEC_INFO", info.to_string());
    for (name, value) in &exec.env {
        command.env(name, OsStr::from_bytes(value.reveal()));
    }
    let output = process::run(&mut command, b"", OUTPUT_LIMIT, deadline.share(2))
        .map_err(|e| not_started(&source, &e, exec.install_hint.as_deref()))?;
    log_stderr(&output.stderr, &source, log);
    match output.exit {
        Err(Killed::Deadline) => Err(failed("it timed out and was killed".to_owned())),
        Err(Killed::Output) => Err(failed("its output exceeds 1 MiB".to_owned())),
        Err(Killed::Io(error)) => Err(failed(format!("its output cannot be read: {error}"))),
        Ok(status) if !status.success() => Err(failed(format!("it failed ({status})"))),
        Ok(_) => read(&output.stdout, exec, source.clone(), clock::now()).map_err(failed),
    }
}

/// Logs the first ten lines of stderr.
fn log_stderr(stderr: &[u8], source: &str, log: Log) {
    let text = String::from_utf8_lossy(stderr);
    for line in text.lines().map(one_line).filter(|l| !l.is_empty()).take(10) {
        log.with(&[("source", &source), ("says", &line)])
            .warn("exec plugin wrote to stderr");
    }
}

fn not_started(source: &str, error: &io::Error, hint: Option<&str>) -> Error {
    let cure = match (error.kind(), hint) {
        (io::ErrorKind::NotFound, Some(hint)) => one_line(hint),
        (io::ErrorKind::NotFound, None) => {
            "install it on this node, or configure its absolute path".to_owned()
        }
        (io::ErrorKind::PermissionDenied, _) => "make it executable".to_owned(),
        _ => "run it by hand on this node".to_owned(),
    };
    Error::new(
        Class::Credential,
        format!("{source} cannot be run: {error}; {cure}"),
    )
}

/// The ExecCredential that the program gets in its environment.
fn exec_info(exec: &Exec, kubeconfig: &Kubeconfig) -> Result<Value, Error> {
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

/// Reads the credential in the output. No error quotes the output.
fn read(output: &[u8], exec: &Exec, source: String, now: i64) -> Result<ExecCredential, String> {
    if output.trim_ascii().is_empty() {
        return Err("it wrote nothing to stdout".to_owned());
    }
    let raw: RawCredential = serde_json::from_slice(output).map_err(|e| {
        format!(
            "its output is not an ExecCredential (line {}, column {})",
            e.line(),
            e.column()
        )
    })?;
    if raw.kind.as_deref() != Some("ExecCredential") {
        return Err("its output is not of kind ExecCredential".to_owned());
    }
    if raw.api_version.as_deref() != Some(exec.version.as_str()) {
        return Err(format!(
            "its output is not in the requested apiVersion {}",
            exec.version.as_str()
        ));
    }
    let status = raw.status.ok_or("its output has no status")?;
    if let Some(text) = &status.expiration_timestamp {
        let expires = clock::parse_rfc3339(text).ok_or("its expirationTimestamp is not a valid time")?;
        if expires <= now {
            return Err(format!("its credential expired at {}", clock::rfc3339(expires)));
        }
    }
    let set = |field: Option<String>| field.filter(|text| !text.trim().is_empty());
    let certificate = match (set(status.client_certificate_data), set(status.client_key_data)) {
        (Some(chain), Some(key)) => Some((chain.into_bytes(), Secret::new(key))),
        (None, None) => None,
        _ => return Err("it returned a certificate or a key without the other".to_owned()),
    };
    let token = set(status.token)
        .map(|t| parse(t.as_bytes(), &source).map_err(|e| e.to_string()))
        .transpose()?;
    if token.is_none() && certificate.is_none() {
        return Err("it returned neither a token nor a certificate".to_owned());
    }
    Ok(ExecCredential {
        token,
        certificate,
        source,
    })
}
