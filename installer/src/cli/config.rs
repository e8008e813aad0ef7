//! From what was given to what is known to be right, in one step, before the node is touched.

mod parse;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, bail};
use evergreen_kube::log::Level;

use crate::{
    cli::{entry::Entry, settings::RawSettings},
    host::HostPath,
};

/// Where our things are on the node. Enough to take them away.
#[derive(Debug, Clone)]
pub struct Paths {
    /// From here the runtime runs plugins.
    pub bin_dir: HostPath,
    /// From here it loads networks.
    pub net_dir: HostPath,
    /// Ours alone, below `net_dir` because that is what is mounted: token, CA, originals. Named after `type`, so that two
    /// releases do not meet in it; runtimes read no directory of this name.
    pub own_dir: HostPath,
    /// The plugin's kubeconfig.
    pub kubeconfig: HostPath,
    /// The plugin's file name and the `type` of its entry.
    pub type_name: String,
    /// Files of the image to install.
    pub image_bin_dir: PathBuf,
    /// The plugin's file stays at a removal.
    pub keep_binary: bool,
}

/// What the node shall be like.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where.
    pub place: Paths,
    /// Our object in the conflist.
    pub entry: Entry,
    /// Which networks get it.
    pub networks: Networks,
    /// The API server, and what this pod comes to it with.
    pub server: Server,
    /// Another one, joined with it.
    pub extra_ca_file: Option<PathBuf>,
    /// How long `once` waits for a network.
    pub wait: Duration,
    /// What SIGTERM means.
    pub on_term: OnTerm,
    /// What it means when the API server cannot be asked.
    pub on_term_unsure: OnTerm,
    /// Name of our DaemonSet.
    pub daemonset: String,
    /// Where probes and metrics are served; none: nowhere.
    pub port: Option<u16>,
    /// Which token the plugin gets.
    pub token_source: TokenSource,
    /// Whose token is requested: namespace (empty: the pod's) and name; none: the pod's own account.
    pub account: Option<(String, String)>,
    /// For whom the token is; empty: for the API server.
    pub audiences: Vec<String>,
    /// For how long it is asked, in seconds.
    pub token_seconds: u64,
    /// Where the node's root is mounted.
    pub prefix: PathBuf,
    /// Where the kubelet keeps its pods' volumes.
    pub kubelet_dir: HostPath,
    /// The node's name, when it was given.
    pub node_name: Option<String>,
}

/// Which token the plugin gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenSource {
    /// One of its own, or a copy of the pod's where that is refused.
    Auto,
    /// One of its own.
    Request,
    /// A copy of the pod's.
    Copy,
    /// None: the kubelet's own volume on the host is used.
    KubeletVolume,
}

/// The API server, and what this pod comes to it with.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its address.
    pub url: String,
    /// The pod's projected token.
    pub token_file: PathBuf,
    /// The CA bundle.
    pub ca_file: PathBuf,
}

/// Which networks get our entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Networks {
    /// The one the runtime uses.
    First,
    /// Every one that is not loopback.
    All,
    /// The one in this file.
    Named(String),
}

/// What SIGTERM means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTerm {
    /// Remove when the installer is really going away.
    Auto,
    /// Remove.
    Remove,
    /// Leave everything as it is.
    Keep,
}

/// The `type` of Linkerd's chart, for a removal that was given no template.
const USUAL_TYPE: &str = "linkerd-cni";

impl Paths {
    /// The directories and names, for `type_name`.
    pub fn from_given(given: &RawSettings, type_name: &str) -> Result<Self> {
        let prefix = Path::new(given.value("CONTAINER_MOUNT_PREFIX"));
        let net_dir = HostPath::new(prefix, parse::absolute(given, "DEST_CNI_NET_DIR")?);
        Ok(Self {
            bin_dir: HostPath::new(prefix, parse::absolute(given, "DEST_CNI_BIN_DIR")?),
            own_dir: net_dir.join(format!("{type_name}.evergreen")),
            kubeconfig: net_dir.join(parse::kubeconfig_name(given)?),
            net_dir,
            type_name: type_name.to_owned(),
            image_bin_dir: parse::absolute(given, "CONTAINER_CNI_BIN_DIR")?.to_path_buf(),
            keep_binary: parse::truth(given, "EVERGREEN_KEEP_BINARY")?,
        })
    }

    /// For a removal: the template is read when there is one, only for its `type`.
    pub fn for_removal(given: &RawSettings) -> Result<Self> {
        match parse::template(given)? {
            Some(text) => Self::from_given(
                given,
                Entry::from_template(&text, Path::new(""), None)?.type_name(),
            ),
            None => Self::from_given(given, USUAL_TYPE),
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
    /// Everything, checked.
    pub fn from_given(given: &RawSettings) -> Result<Self> {
        let Some(text) = parse::template(given)? else {
            bail!(
                "no netconf template: set CNI_NETWORK_CONFIG to its JSON, or CNI_NETWORK_CONFIG_FILE to its file"
            );
        };
        let server = Server::from_given(given)?;
        // Without the file the plugin's default list of exempt namespaces applies.
        let namespace = server.namespace_file();
        let net_dir = parse::absolute(given, "DEST_CNI_NET_DIR")?;
        let entry = Entry::from_template(
            &text,
            &net_dir.join(parse::kubeconfig_name(given)?),
            namespace.as_deref(),
        )?;
        let place = Paths::from_given(given, entry.type_name())?;
        let prefix = Path::new(given.value("CONTAINER_MOUNT_PREFIX"));
        Ok(Self {
            networks: Networks::from_text(given.value("EVERGREEN_CONFLIST"))?,
            server,
            extra_ca_file: match given.value("EVERGREEN_EXTRA_CA_FILE") {
                "" => None,
                _ => Some(parse::absolute(given, "EVERGREEN_EXTRA_CA_FILE")?.to_path_buf()),
            },
            wait: parse::seconds(given, "EVERGREEN_WAIT_SECONDS")?,
            on_term: OnTerm::from_text(given.value("EVERGREEN_ON_TERM"))?,
            on_term_unsure: parse::unsure(given.value("EVERGREEN_ON_TERM_UNSURE"))?,
            daemonset: given.value("EVERGREEN_DAEMONSET").to_owned(),
            token_source: TokenSource::from_text(given.value("EVERGREEN_TOKEN_SOURCE"))?,
            account: parse::account(given.value("EVERGREEN_SERVICE_ACCOUNT"))?,
            audiences: parse::list(given.value("EVERGREEN_TOKEN_AUDIENCE")),
            token_seconds: parse::lifetime(given.value("EVERGREEN_TOKEN_SECONDS"))?,
            prefix: prefix.to_path_buf(),
            kubelet_dir: HostPath::new(prefix, parse::absolute(given, "EVERGREEN_KUBELET_DIR")?),
            node_name: Some(given.value("NODE_NAME").to_owned()).filter(|n| !n.is_empty()),
            port: parse::port(given.value("EVERGREEN_ADMIN_PORT"))?,
            place,
            entry,
        })
    }
}

impl Server {
    /// Where it is, and the files to use.
    pub fn from_given(given: &RawSettings) -> Result<Self> {
        let token_file = parse::absolute(given, "KUBE_TOKEN_FILE")?.to_path_buf();
        Ok(Self {
            url: parse::server(given)?,
            ca_file: match given.value("KUBE_CA_FILE") {
                "" => token_file.with_file_name("ca.crt"),
                _ => parse::absolute(given, "KUBE_CA_FILE")?.to_path_buf(),
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
                    "EVERGREEN_CONFLIST is {name:?}: write `first`, `all` or a file's name without its directory"
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

/// The log's level; linkerd-cni's words for more and less detail are taken too.
pub fn level(given: &RawSettings) -> Result<Level> {
    Ok(match given.value("EVERGREEN_LOG_LEVEL") {
        "trace" | "debug" => Level::Debug,
        "info" => Level::Info,
        "warn" | "warning" | "error" => Level::Warn,
        other => bail!("the log level is {other:?}: write `debug`, `info` or `warn`"),
    })
}

/// True when a template was given in both ways: the text counts.
pub fn has_two_templates(given: &RawSettings) -> bool {
    !given.value("CNI_NETWORK_CONFIG").is_empty() && !given.value("CNI_NETWORK_CONFIG_FILE").is_empty()
}

/// What SLEEP says: true for `run`, false for `once`.
pub fn stays(given: &RawSettings) -> Result<bool> {
    parse::truth(given, "SLEEP")
}

#[cfg(test)]
mod tests;
