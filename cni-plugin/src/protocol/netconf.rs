//! The network configuration on stdin: first the name and version that every plugin of the reference library checks in
//! the same order and with the same messages, then the plugin's own keys. Every value is checked once, here.

mod field;
mod invalid;
mod proxy;

use std::{borrow::Cow, path::PathBuf, time::Duration};

use evergreen_kube::{log::Level, pod::Strings};
use serde::Deserialize;

use self::field::Fields;
pub use self::{
    invalid::InvalidNetConf,
    proxy::{ProxyDefaults, user_or_group},
};
use super::{
    call::is_cni_identifier,
    previous::Previous,
    version::{self, NEWEST, VERSIONS},
};
use crate::net::{
    cidr::CidrSet,
    ports::{InvalidPort, Port, PortSet},
};

/// The capability by which runtimes pass the pod's annotations to a plugin that declares it (containerd since 1.5.0,
/// CRI-O since 1.29.0).
pub const POD_ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

/// The default time limit of a call.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// The default of `exempt-namespaces`.
pub const EXEMPT_BY_DEFAULT: [&str; 2] = ["kube-system", "linkerd-cni"];

/// The text that the installer replaces with the kubeconfig's path.
pub const KUBECONFIG_PLACEHOLDER: &str = "__KUBECONFIG_FILEPATH__";

/// Stdin as JSON with a valid network name; nothing else is checked yet.
#[derive(Debug)]
pub struct Envelope<'a> {
    fields: Fields<'a>,
}

/// The configuration, every value checked.
#[derive(Debug)]
pub struct NetConf<'a> {
    /// The protocol version of this call, one of [`VERSIONS`].
    pub version: &'static str,
    /// The least severe level that is logged.
    pub log_level: Level,
    /// The path of the kubeconfig, or why it is unknown.
    pub kubeconfig: Result<PathBuf, &'static str>,
    /// The proxy's ports and identity, for pods that do not state them.
    pub proxy: ProxyDefaults,
    /// Inbound destination ports to redirect; empty means all.
    pub inbound_only: PortSet,
    /// Inbound destination ports that bypass the proxy.
    pub skip_inbound: PortSet,
    /// Outbound destination ports that bypass the proxy.
    pub skip_outbound: PortSet,
    /// Subnets whose inbound connections bypass the proxy.
    pub skip_sources: CidrSet,
    /// Redirect IPv6 in dual-stack pods, too.
    pub ipv6: bool,
    /// Decide, log and reply, but change nothing.
    pub simulate: bool,
    /// The iptables variant that the fallback tries first.
    pub iptables_mode: IptablesMode,
    /// Namespaces whose pods are skipped without any I/O.
    pub exempt_namespaces: Vec<String>,
    /// Fall back on the runtime's annotations when the API server is unavailable.
    pub annotations_decide: bool,
    /// Ask the API server about every pod, also about those the runtime's annotations show as not injected.
    pub always_ask: bool,
    /// The time limit of the call.
    pub deadline: Duration,
    /// The pod's annotations as the runtime passed them, if it did.
    pub annotations: Option<Strings>,
    /// The previous plugin's result, read by [`NetConf::with_previous`] only.
    pub previous: Option<Previous<'a>>,
}

/// The iptables variant that the fallback prefers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IptablesMode {
    /// `iptables-legacy-restore`
    #[default]
    Legacy,
    /// `iptables-nft-restore`
    Nft,
    /// `iptables-restore`, the node's default
    Plain,
}

// === impl Envelope ===

impl<'a> Envelope<'a> {
    /// Parses stdin and checks the network's name.
    pub fn read(stdin: &'a [u8]) -> Result<Self, InvalidNetConf> {
        let decoding =
            |e: serde_json::Error| InvalidNetConf::Decoding(format!("error unmarshall network config: {e}"));
        // The reference library accepts a bare `null` as an object without fields.
        let fields = Fields::parse(stdin).map_err(decoding)?;
        match fields.take::<Cow<'_, str>>("name").map_err(decoding)? {
            None => Err(InvalidNetConf::MissingName),
            Some(name) if name.is_empty() => Err(InvalidNetConf::MissingName),
            Some(name) if !is_cni_identifier(name.as_bytes()) => {
                Err(InvalidNetConf::BadName(name.into_owned()))
            }
            Some(_) => Ok(Self { fields }),
        }
    }

    /// Returns the version for ADD and DEL, which must be supported. Absent, null or empty means 0.1.0.
    pub fn version(&self) -> Result<&'static str, InvalidNetConf> {
        let asked = self.asked_version()?;
        VERSIONS
            .into_iter()
            .find(|v| *v == asked)
            .ok_or_else(|| InvalidNetConf::Version(asked.into_owned()))
    }

    /// Returns the version for a command that `since` introduced. Compared as numbers first, as in the reference library.
    pub fn version_since(&self, since: &str, command: &'static str) -> Result<&'static str, InvalidNetConf> {
        let asked = self.asked_version()?;
        match version::numbers(&asked) {
            None => Err(InvalidNetConf::Decoding(format!(
                "failed to parse cniVersion {asked:?}"
            ))),
            Some(asked) if Some(asked) < version::numbers(since) => {
                Err(InvalidNetConf::VersionTooOld(command))
            }
            Some(asked) if Some(asked) > version::numbers(NEWEST) => {
                Err(InvalidNetConf::VersionTooNew(command))
            }
            Some(_) => self.version(),
        }
    }

    fn asked_version(&self) -> Result<Cow<'_, str>, InvalidNetConf> {
        let version = self.fields.take::<Cow<'_, str>>("cniVersion");
        let version = version
            .map_err(|e| InvalidNetConf::Decoding(format!("decoding version from network config: {e}")))?;
        Ok(version.filter(|v| !v.is_empty()).unwrap_or(VERSIONS[0].into()))
    }
}

// === impl NetConf ===

impl<'a> NetConf<'a> {
    /// Checks every key of the plugin. A previous result is not read: commands that do not need one must not fail because
    /// of it.
    pub fn check(envelope: &Envelope<'a>, version: &'static str) -> Result<Self, InvalidNetConf> {
        let top = &envelope.fields;
        let linkerd = top.block("linkerd")?;
        let evergreen = top.block("evergreen")?;
        evergreen.reject_unknown(&[
            "exempt-namespaces",
            "on-api-failure",
            "ask-api",
            "deadline-seconds",
        ])?;
        Ok(Self {
            version,
            log_level: match top.value::<Cow<'_, str>>("log_level")?.as_deref() {
                Some("debug") => Level::Debug,
                Some("info") => Level::Info,
                _ => Level::Warn,
            },
            kubeconfig: kubeconfig(&top.block("kubernetes")?)?,
            proxy: ProxyDefaults::check(&linkerd)?,
            inbound_only: linkerd.checked("ports-to-redirect", |ports: Vec<i64>| {
                ports.into_iter().map(Port::from_number).collect()
            })?,
            skip_inbound: linkerd.checked("inbound-ports-to-ignore", port_entries)?,
            skip_outbound: linkerd.checked("outbound-ports-to-ignore", port_entries)?,
            skip_sources: linkerd.checked("subnets-to-ignore", |entries: Vec<Cow<'_, str>>| {
                CidrSet::from_entries(entries.iter().map(|e| &**e))
            })?,
            ipv6: linkerd.value("ipv6")?.unwrap_or(false),
            simulate: linkerd.value("simulate")?.unwrap_or(false),
            iptables_mode: linkerd
                .checked("iptables-mode", |word: Cow<'_, str>| IptablesMode::parse(&word))?,
            exempt_namespaces: evergreen
                .value("exempt-namespaces")?
                .unwrap_or_else(|| EXEMPT_BY_DEFAULT.map(str::to_owned).to_vec()),
            annotations_decide: evergreen.one_of("on-api-failure", ["annotations", "fail"])? == 0,
            always_ask: evergreen.one_of("ask-api", ["when-needed", "always"])? == 1,
            deadline: evergreen.checked("deadline-seconds", deadline)?,
            annotations: annotations(top),
            previous: None,
        })
    }

    /// Adds the previous result, for ADD and CHECK.
    pub fn with_previous(self, envelope: &Envelope<'a>) -> Result<Self, InvalidNetConf> {
        let raw = envelope.fields.raw("prevResult");
        let previous = raw.map(|raw| Previous::read(raw, self.version)).transpose();
        Ok(Self {
            previous: previous.map_err(|why| InvalidNetConf::value("prevResult", why))?,
            ..self
        })
    }

    /// Returns the result of an ADD: the previous one, passed on.
    ///
    /// A plugin that is first or alone in its chain answers an empty result: it has no address to report.
    pub fn result(&self) -> String {
        match &self.previous {
            Some(previous) => previous.pass_on(self.version),
            None => format!("{{\"cniVersion\":\"{}\"}}", self.version),
        }
    }
}

fn kubeconfig(kubernetes: &Fields<'_>) -> Result<Result<PathBuf, &'static str>, InvalidNetConf> {
    let path = kubernetes.value::<String>("kubeconfig")?.unwrap_or_default();
    Ok(match &*path {
        "" => Err("the network configuration has no kubernetes.kubeconfig: let the installer write it"),
        KUBECONFIG_PLACEHOLDER => {
            Err("kubernetes.kubeconfig still holds the template's placeholder: let the installer write it")
        }
        _ => Ok(path.into()),
    })
}

fn port_entries(entries: Vec<Cow<'_, str>>) -> Result<PortSet, InvalidPort> {
    PortSet::from_entries(entries.iter().map(|e| &**e))
}

/// At most two minutes: runtimes wait up to four and hold locks meanwhile.
fn deadline(Seconds(seconds): Seconds) -> Result<Duration, &'static str> {
    Some(seconds)
        .filter(|s| (0.1..=120.0).contains(s))
        .map(Duration::from_secs_f64)
        .ok_or("is not in 0.1-120 seconds")
}

/// A number of seconds; the default is that of the key `deadline-seconds`.
#[derive(Deserialize)]
struct Seconds(f64);

impl Default for Seconds {
    fn default() -> Self {
        Self(DEFAULT_DEADLINE.as_secs_f64())
    }
}

/// Returns the annotations from `runtimeConfig`. An unknown shape counts as absent: then the API server is asked.
fn annotations(top: &Fields<'_>) -> Option<Strings> {
    let runtime = top.block("runtimeConfig").ok()?;
    runtime.value::<Strings>(POD_ANNOTATIONS).ok()?
}

// === impl IptablesMode ===

impl IptablesMode {
    fn parse(word: &str) -> Result<Self, String> {
        match word {
            "" | "legacy" => Ok(Self::Legacy),
            "nft" => Ok(Self::Nft),
            "plain" => Ok(Self::Plain),
            other => Err(format!("is {other:?}; write legacy, nft or plain")),
        }
    }
}

#[cfg(test)]
mod tests;
