//! The checked configuration, made from the raw settings in one step before the node is touched.

mod parse;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use evergreen_kube::log::{Component, Format, Level, Log};

use crate::{
    cli::{entry::Entry, settings::RawSettings},
    host::HostPath,
};

/// Where everything is on the node; all that a removal needs.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The directory from which the runtime runs plugins.
    pub bin_dir: HostPath,
    /// The directory from which it loads networks.
    pub net_dir: HostPath,
    /// The installer's own directory, for token, CA and originals. It is in `net_dir`, which is mounted, and runtimes ignore
    /// it; named after `type`, so that two releases do not share it.
    pub own_dir: HostPath,
    /// The plugin's kubeconfig.
    pub kubeconfig: HostPath,
    /// The plugin's file name and the `type` of its entry.
    pub type_name: String,
    /// The directory of the image whose files are installed.
    pub image_bin_dir: PathBuf,
    /// A removal keeps the plugin's binary.
    pub keep_binary: bool,
}

/// What the node should hold, and how the installer behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where everything is.
    pub paths: Paths,
    /// Our entry in the conflist.
    pub entry: Entry,
    /// Which networks get the entry.
    pub networks: Networks,
    /// The API server, and this pod's credential for it.
    pub server: Server,
    /// Another CA bundle, joined with the pod's.
    pub extra_ca_file: Option<PathBuf>,
    /// How long `once` waits for a network.
    pub wait: Duration,
    /// What happens on SIGTERM.
    pub on_term: OnTerm,
    /// SIGTERM removes everything if the API server gives too little evidence.
    pub remove_if_unsure: bool,
    /// The name of this pod's DaemonSet.
    pub daemonset: String,
    /// The port for probes and metrics; none to serve nothing.
    pub port: Option<u16>,
    /// Which token the plugin uses.
    pub token_source: TokenSource,
    /// The ServiceAccount to request a token for: namespace (empty for the pod's) and name; none for the pod's own.
    pub account: Option<(String, String)>,
    /// The audiences of a requested token; empty for the API server's own.
    pub audiences: Vec<String>,
    /// The lifetime of a requested token, in seconds.
    pub token_seconds: u64,
    /// Where the node's directories are mounted.
    pub prefix: PathBuf,
    /// The kubelet's root directory.
    pub kubelet_dir: HostPath,
    /// The node's name, if it was given.
    pub node_name: Option<String>,
}

/// Which token the plugin uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenSource {
    /// A requested one, or else a copy of the pod's.
    Auto,
    /// A requested one.
    Request,
    /// A copy of the pod's.
    Copy,
    /// The one in the kubelet's volume on the node.
    KubeletVolume,
}

/// The API server, and this pod's credential for it.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its URL.
    pub url: String,
    /// The pod's projected token.
    pub token_file: PathBuf,
    /// The CA bundle.
    pub ca_file: PathBuf,
}

/// Which networks get our entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Networks {
    /// The network that the runtime uses.
    First,
    /// Every network except loopback.
    All,
    /// The network in this file.
    Named(String),
}

/// What happens on SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTerm {
    /// Remove on an uninstall, keep on an update.
    Auto,
    /// Remove everything.
    Remove,
    /// Keep everything.
    Keep,
}

/// The `type` in Linkerd's chart, for a removal without a template.
const DEFAULT_TYPE: &str = "linkerd-cni";

impl Paths {
    /// Checks the settings of the paths, for a plugin of this name.
    pub fn from_settings(settings: &RawSettings, type_name: &str) -> Result<Self> {
        let prefix = Path::new(settings.value("CONTAINER_MOUNT_PREFIX"));
        let net_dir = HostPath::new(prefix, parse::absolute(settings, "DEST_CNI_NET_DIR")?);
        Ok(Self {
            bin_dir: HostPath::new(prefix, parse::absolute(settings, "DEST_CNI_BIN_DIR")?),
            own_dir: net_dir.join(format!("{type_name}.evergreen")),
            kubeconfig: net_dir.join(parse::kubeconfig_name(settings)?),
            net_dir,
            type_name: type_name.to_owned(),
            image_bin_dir: parse::absolute(settings, "CONTAINER_CNI_BIN_DIR")?.to_path_buf(),
            keep_binary: parse::boolean(settings, "EVERGREEN_KEEP_BINARY")?,
        })
    }

    /// Checks what a removal needs. Of the template, if there is one, only `type` matters.
    pub fn for_removal(settings: &RawSettings) -> Result<Self> {
        match parse::template(settings)? {
            Some(text) => Self::from_settings(
                settings,
                Entry::from_template(&text, Path::new(""), None)?.type_name(),
            ),
            None => Self::from_settings(settings, DEFAULT_TYPE),
        }
    }

    /// The plugin's token.
    pub fn token_file(&self) -> HostPath {
        self.own_dir.join("token")
    }

    /// The plugin's CA bundle.
    pub fn ca_file(&self) -> HostPath {
        self.own_dir.join("ca.crt")
    }

    /// The record of how the token was made, for people.
    pub fn record_file(&self) -> HostPath {
        self.own_dir.join("credential")
    }
}

impl Config {
    /// Checks all settings.
    pub fn from_settings(settings: &RawSettings) -> Result<Self> {
        let Some(text) = parse::template(settings)? else {
            bail!(
                "no netconf template: set CNI_NETWORK_CONFIG to its JSON, or CNI_NETWORK_CONFIG_FILE to its file"
            );
        };
        let server = Server::from_settings(settings)?;
        // Without the file the plugin's default list of exempt namespaces applies.
        let namespace = server.namespace_file();
        let net_dir = parse::absolute(settings, "DEST_CNI_NET_DIR")?;
        let entry = Entry::from_template(
            &text,
            &net_dir.join(parse::kubeconfig_name(settings)?),
            namespace.as_deref(),
        )?;
        let paths = Paths::from_settings(settings, entry.type_name())?;
        let prefix = Path::new(settings.value("CONTAINER_MOUNT_PREFIX"));
        Ok(Self {
            networks: Networks::from_text(settings.value("EVERGREEN_CONFLIST"))?,
            server,
            extra_ca_file: match settings.value("EVERGREEN_EXTRA_CA_FILE") {
                "" => None,
                _ => Some(parse::absolute(settings, "EVERGREEN_EXTRA_CA_FILE")?.to_path_buf()),
            },
            wait: parse::seconds(settings, "EVERGREEN_WAIT_SECONDS")?,
            on_term: OnTerm::from_text(settings.value("EVERGREEN_ON_TERM"))?,
            remove_if_unsure: parse::remove_if_unsure(settings.value("EVERGREEN_ON_TERM_UNSURE"))?,
            daemonset: settings.value("EVERGREEN_DAEMONSET").to_owned(),
            token_source: TokenSource::from_text(settings.value("EVERGREEN_TOKEN_SOURCE"))?,
            account: parse::account(settings.value("EVERGREEN_SERVICE_ACCOUNT"))?,
            audiences: parse::list(settings.value("EVERGREEN_TOKEN_AUDIENCE")),
            token_seconds: parse::lifetime(settings.value("EVERGREEN_TOKEN_SECONDS"))?,
            prefix: prefix.to_path_buf(),
            kubelet_dir: HostPath::new(prefix, parse::absolute(settings, "EVERGREEN_KUBELET_DIR")?),
            node_name: Some(settings.value("NODE_NAME").to_owned()).filter(|n| !n.is_empty()),
            port: parse::port(settings.value("EVERGREEN_ADMIN_PORT"))?,
            paths,
            entry,
        })
    }
}

impl Server {
    /// Checks the settings of the API server.
    pub fn from_settings(settings: &RawSettings) -> Result<Self> {
        let token_file = parse::absolute(settings, "KUBE_TOKEN_FILE")?.to_path_buf();
        Ok(Self {
            url: parse::server(settings)?,
            ca_file: match settings.value("KUBE_CA_FILE") {
                "" => token_file.with_file_name("ca.crt"),
                _ => parse::absolute(settings, "KUBE_CA_FILE")?.to_path_buf(),
            },
            token_file,
        })
    }

    /// Returns the content of the file `namespace` that the kubelet puts beside the token.
    pub fn namespace_file(&self) -> Option<String> {
        let text = fs::read_to_string(self.token_file.with_file_name("namespace")).ok()?;
        Some(text.trim().to_owned()).filter(|namespace| !namespace.is_empty())
    }
}

impl Networks {
    fn from_text(text: &str) -> Result<Self> {
        Ok(match text {
            "first" => Self::First,
            "all" => Self::All,
            name if name.contains('/') => {
                bail!(
                    "EVERGREEN_CONFLIST is {name:?}: write `first`, `all` or a file name without a directory"
                )
            }
            name => Self::Named(name.to_owned()),
        })
    }
}

impl OnTerm {
    fn from_text(text: &str) -> Result<Self> {
        Ok(match text {
            "auto" => Self::Auto,
            "remove" => Self::Remove,
            "keep" => Self::Keep,
            other => bail!("EVERGREEN_ON_TERM is {other:?}: write `auto`, `remove` or `keep`"),
        })
    }
}

impl TokenSource {
    fn from_text(text: &str) -> Result<Self> {
        Ok(match text {
            "auto" => Self::Auto,
            "request" => Self::Request,
            "copy" => Self::Copy,
            "kubelet-volume" => Self::KubeletVolume,
            other => bail!(
                "EVERGREEN_TOKEN_SOURCE is {other:?}: write `auto`, `request`, `copy` or `kubelet-volume`"
            ),
        })
    }
}

/// Returns the installer's log. linkerd-cni's words for more and less detail are accepted, too.
pub fn log(settings: &RawSettings) -> Result<Log> {
    let level = match settings.value("EVERGREEN_LOG_LEVEL") {
        "trace" | "debug" => Level::Debug,
        "info" => Level::Info,
        "warn" | "warning" | "error" => Level::Warn,
        other => bail!("EVERGREEN_LOG_LEVEL is {other:?}: write `debug`, `info` or `warn`"),
    };
    let format = settings.value("EVERGREEN_LOG_FORMAT");
    let format = Format::parse(format)
        .with_context(|| format!("EVERGREEN_LOG_FORMAT is {format:?}: write `logfmt` or `json`"))?;
    Ok(Log::new(Component::Installer, level).format(format))
}

/// Returns true if the template was given as text and as a file, which is then ignored.
pub fn has_two_templates(settings: &RawSettings) -> bool {
    !settings.value("CNI_NETWORK_CONFIG").is_empty() && !settings.value("CNI_NETWORK_CONFIG_FILE").is_empty()
}

/// Returns `SLEEP`: true for `run`, false for `once`.
pub fn sleep(settings: &RawSettings) -> Result<bool> {
    parse::boolean(settings, "SLEEP")
}

#[cfg(test)]
mod tests;
