//! Parsers of single settings. Each error names the setting and says what to write.

use std::{fs, net::IpAddr, path::Path, time::Duration};

use anyhow::{Context, Result, bail};

use crate::cli::settings::RawSettings;

/// Parses `true` or `false`.
pub fn boolean(settings: &RawSettings, variable: &str) -> Result<bool> {
    match settings.value(variable) {
        "true" => Ok(true),
        "false" => Ok(false),
        other => bail!("{variable} is {other:?}: write `true` or `false`"),
    }
}

/// Returns the netconf template, from its variable or from its file; none if neither is set.
pub fn template(settings: &RawSettings) -> Result<Option<String>> {
    match (
        settings.value("CNI_NETWORK_CONFIG"),
        settings.value("CNI_NETWORK_CONFIG_FILE"),
    ) {
        ("", "") => Ok(None),
        ("", file) => fs::read_to_string(file)
            .with_context(|| format!("read the netconf template that CNI_NETWORK_CONFIG_FILE names: {file}"))
            .map(Some),
        (text, _) => Ok(Some(text.to_owned())),
    }
}

/// Returns the kubeconfig's file name, which no runtime may load as a network.
pub fn kubeconfig_name(settings: &RawSettings) -> Result<&str> {
    match settings.value("KUBECONFIG_FILE_NAME") {
        name if name.contains('/') || name == "." || name == ".." => {
            bail!("KUBECONFIG_FILE_NAME is {name:?}: write a file name without a directory")
        }
        name if [".conf", ".conflist", ".json"].iter().any(|e| name.ends_with(e)) => {
            bail!("KUBECONFIG_FILE_NAME is {name:?}: a runtime would load a file of this name as a network")
        }
        name => Ok(name),
    }
}

/// Parses an absolute path.
pub fn absolute<'a>(settings: &'a RawSettings, variable: &str) -> Result<&'a Path> {
    let path = Path::new(settings.value(variable));
    if path.is_relative() {
        bail!(
            "{variable} is {:?}: write an absolute path",
            settings.value(variable)
        );
    }
    Ok(path)
}

/// Parses seconds, at most a day: more is a mistake.
pub fn seconds(settings: &RawSettings, variable: &str) -> Result<Duration> {
    let text = settings.value(variable);
    let seconds = text.parse().ok().filter(|s| *s <= 86_400);
    let seconds =
        seconds.with_context(|| format!("{variable} is {text:?}: write whole seconds, at most 86400"))?;
    Ok(Duration::from_secs(seconds))
}

/// Parses `EVERGREEN_ON_TERM_UNSURE`: true to remove.
pub fn remove_if_unsure(text: &str) -> Result<bool> {
    match text {
        "keep" => Ok(false),
        "remove" => Ok(true),
        other => bail!("EVERGREEN_ON_TERM_UNSURE is {other:?}: write `keep` or `remove`"),
    }
}

/// Parses a ServiceAccount: namespace (empty if not given) and name; none if not set.
pub fn account(text: &str) -> Result<Option<(String, String)>> {
    match text.split_once('/') {
        None if text.is_empty() => Ok(None),
        None => Ok(Some((String::new(), text.to_owned()))),
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Some((namespace.to_owned(), name.to_owned())))
        }
        Some(_) => bail!("EVERGREEN_SERVICE_ACCOUNT is {text:?}: write NAME or NAMESPACE/NAME"),
    }
}

/// Parses a comma-separated list.
pub fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|e| !e.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Parses the lifetime of a token in seconds; Kubernetes accepts 600 and more.
pub fn lifetime(text: &str) -> Result<u64> {
    let seconds = text
        .parse()
        .ok()
        .filter(|s| (600..=u64::from(u32::MAX)).contains(s));
    seconds.with_context(|| format!("EVERGREEN_TOKEN_SECONDS is {text:?}: write seconds, at least 600"))
}

/// Parses a port to listen on; none for `off`.
pub fn port(text: &str) -> Result<Option<u16>> {
    match text {
        "off" => Ok(None),
        _ => text.parse().map(Some).ok().with_context(|| {
            format!("EVERGREEN_ADMIN_PORT is {text:?}: write a port, 0 for any free port, or `off`")
        }),
    }
}

/// Returns the API server's URL, from the two variables that the kubelet sets.
pub fn server(settings: &RawSettings) -> Result<String> {
    let host = settings.value("KUBERNETES_SERVICE_HOST");
    if host.is_empty() {
        bail!(
            "KUBERNETES_SERVICE_HOST is not set: the kubelet sets it in every pod; outside a pod, set it to the API server's address"
        );
    }
    let port = settings.value("KUBERNETES_SERVICE_PORT");
    if !port.parse::<u16>().is_ok_and(|p| p != 0) {
        bail!("KUBERNETES_SERVICE_PORT is {port:?}: write a port from 1 to 65535");
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => Ok(format!("https://[{address}]:{port}")),
        Ok(IpAddr::V4(address)) => Ok(format!("https://{address}:{port}")),
        Err(_)
            if host
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-')) =>
        {
            Ok(format!("https://{host}:{port}"))
        }
        Err(_) => bail!("KUBERNETES_SERVICE_HOST is {host:?}: write an address or a host name"),
    }
}
