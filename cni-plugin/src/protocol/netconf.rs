//! Stdin: the network configuration. First the envelope that every plugin of the reference library checks in the
//! same order and words, then our own keys, each checked once; nothing validates after this module.

mod error;
mod field;
mod previous;
mod proxy;

use std::{borrow::Cow, path::PathBuf, time::Duration};

use serde::Deserialize;

use self::field::Fields;
pub use self::{
    error::Error,
    previous::Previous,
    proxy::{ProxyDefaults, user_or_group},
};
use crate::{
    policy::{
        cidr::CidrSet,
        ports::{Port, PortSet},
    },
    protocol::{
        call::is_cni_identifier,
        reply::{NEWEST, VERSIONS},
    },
};
use evergreen_kube::{log::Level, pod::Strings};

/// Where runtimes put the pod's annotations when our conflist entry declares this capability
/// (containerd since 1.5.0, CRI-O since 1.29.0).
pub const POD_ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

/// The time for a whole call when the configuration does not say.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// The namespaces that pass when the key `exempt-namespaces` is not there.
pub const EXEMPT_BY_DEFAULT: [&str; 2] = ["kube-system", "linkerd-cni"];

/// What the installer replaces in a template by the kubeconfig's path.
pub const KUBECONFIG_PLACEHOLDER: &str = "__KUBECONFIG_FILEPATH__";

/// Stdin as JSON with a valid network name, and nothing else looked at yet.
#[derive(Debug)]
pub struct Envelope<'a> {
    fields: Fields<'a>,
}

/// The configuration, every value checked.
#[derive(Debug)]
pub struct NetConf<'a> {
    /// The protocol version of this call, one of [`VERSIONS`].
    pub version: &'static str,
    /// How much goes to the log.
    pub log_level: Level,
    /// Where the kubeconfig is, or why nobody can know.
    pub kubeconfig: Result<PathBuf, &'static str>,
    /// What a pod's proxy is like when the pod does not say.
    pub proxy: ProxyDefaults,
    /// Destination ports redirected on the way in; empty means all.
    pub inbound_only: PortSet,
    /// Destination ports left alone on the way in.
    pub skip_inbound: PortSet,
    /// Destination ports left alone on the way out.
    pub skip_outbound: PortSet,
    /// Sources left alone on the way in.
    pub skip_sources: CidrSet,
    /// Program IPv6 for dual-stack pods too.
    pub ipv6: bool,
    /// Compute, log and reply, but change nothing.
    pub simulate: bool,
    /// Which iptables the fallback tries first.
    pub iptables_mode: IptablesMode,
    /// Namespaces whose pods pass before anything is read or asked.
    pub exempt_namespaces: Vec<String>,
    /// The runtime's annotations may decide when the API server cannot be asked.
    pub annotations_decide: bool,
    /// Ask the API server about pods without any mark of injection too.
    pub always_ask: bool,
    /// The time for the whole call.
    pub deadline: Duration,
    /// The pod's annotations as the runtime knows them; none when it did not hand them over.
    pub annotations: Option<Strings>,
    /// The previous plugin's result; none before [`NetConf::with_previous`].
    pub previous: Option<Previous<'a>>,
}

/// Which binaries the fallback prefers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IptablesMode {
    /// `iptables-legacy-restore`
    #[default]
    Legacy,
    /// `iptables-nft-restore`
    Nft,
    /// `iptables-restore`, whatever it is
    Plain,
}

// === impl Envelope ===

impl<'a> Envelope<'a> {
    /// Parses stdin and checks the network's name.
    pub fn read(stdin: &'a [u8]) -> Result<Self, Error> {
        let decoding =
            |e: serde_json::Error| Error::Decoding(format!("error unmarshall network config: {e}"));
        // The reference takes a bare `null` for an object without fields.
        let fields = Fields::parse(stdin).map_err(decoding)?;
        match fields.take::<Cow<'_, str>>("name").map_err(decoding)? {
            None => Err(Error::MissingName),
            Some(name) if name.is_empty() => Err(Error::MissingName),
            Some(name) if !is_cni_identifier(name.as_bytes()) => Err(Error::BadName(name.into_owned())),
            Some(_) => Ok(Self { fields }),
        }
    }

    /// The version of ADD and DEL: one of ours, to the letter. Absent, null or empty means 0.1.0.
    pub fn version(&self) -> Result<&'static str, Error> {
        let asked = self.asked_version()?;
        VERSIONS
            .into_iter()
            .find(|v| *v == asked)
            .ok_or_else(|| Error::Version(asked.into_owned()))
    }

    /// The version of a command that came with `since`: compared as numbers first, as the reference does.
    pub fn version_since(&self, since: &str, command: &'static str) -> Result<&'static str, Error> {
        let asked = self.asked_version()?;
        let number = |text: &str| -> Option<(u32, u32, u32)> {
            let mut parts = text.split('.').map(|p| p.parse().ok());
            let version = (
                parts.next()??,
                parts.next().unwrap_or(Some(0))?,
                parts.next().unwrap_or(Some(0))?,
            );
            parts.next().is_none().then_some(version)
        };
        match number(&asked) {
            None => Err(Error::Decoding(format!("failed to parse cniVersion {asked:?}"))),
            Some(asked) if Some(asked) < number(since) => Err(Error::VersionTooOld(command)),
            Some(asked) if Some(asked) > number(NEWEST) => Err(Error::VersionTooNew(command)),
            Some(_) => self.version(),
        }
    }

    fn asked_version(&self) -> Result<Cow<'_, str>, Error> {
        let version = self.fields.take::<Cow<'_, str>>("cniVersion");
        let version =
            version.map_err(|e| Error::Decoding(format!("decoding version from network config: {e}")))?;
        Ok(version.filter(|v| !v.is_empty()).unwrap_or(VERSIONS[0].into()))
    }
}

// === impl NetConf ===

impl<'a> NetConf<'a> {
    /// Checks every key of ours. What is sent of a previous result is not looked at: most commands have no use for one, and
    /// so it is no reason to fail.
    pub fn check(envelope: &Envelope<'a>, version: &'static str) -> Result<Self, Error> {
        let top = &envelope.fields;
        let linkerd = top.block("linkerd")?;
        let evergreen = top.block("evergreen")?;
        evergreen.refuse_unknown(&[
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

    /// The same with the previous result, for ADD and CHECK.
    pub fn with_previous(self, envelope: &Envelope<'a>) -> Result<Self, Error> {
        let previous = Previous::check(&envelope.fields, self.version)?;
        Ok(Self { previous, ..self })
    }

    /// The result of an ADD: the previous one, handed on.
    ///
    /// Without one (we stand first or alone in the chain) an empty result in the asked version is right: ours has no
    /// address to report.
    pub fn result(&self) -> String {
        match &self.previous {
            Some(previous) => previous.handed_on(self.version),
            None => format!("{{\"cniVersion\":\"{}\"}}", self.version),
        }
    }
}

fn kubeconfig(kubernetes: &Fields<'_>) -> Result<Result<PathBuf, &'static str>, Error> {
    let path = kubernetes.value::<String>("kubeconfig")?.unwrap_or_default();
    Ok(match &*path {
        "" => Err("the network configuration has no kubernetes.kubeconfig: let the installer write it"),
        KUBECONFIG_PLACEHOLDER => {
            Err("kubernetes.kubeconfig still holds the template's placeholder: let the installer write it")
        }
        _ => Ok(path.into()),
    })
}

fn port_entries(entries: Vec<Cow<'_, str>>) -> Result<PortSet, crate::policy::ports::InvalidPort> {
    PortSet::from_entries(entries.iter().map(|e| &**e))
}

/// Runtimes wait up to 4 minutes and hold locks meanwhile, so there is a ceiling.
fn deadline(Seconds(seconds): Seconds) -> Result<Duration, &'static str> {
    Some(seconds)
        .filter(|s| (0.1..=120.0).contains(s))
        .map(Duration::from_secs_f64)
        .ok_or("is not in 0.1-120 seconds")
}

/// A number of seconds with the default of the key `deadline-seconds`.
#[derive(Deserialize)]
struct Seconds(f64);

impl Default for Seconds {
    fn default() -> Self {
        Self(DEFAULT_DEADLINE.as_secs_f64())
    }
}

/// A shape we do not know counts as "not handed over": the API server is then asked, which is always right.
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
