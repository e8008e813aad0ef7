//! What overrides the netconf for one pod: its annotations, its namespace's annotations, the proxy's container.

use std::{fmt, net::SocketAddr};

use crate::{
    net::{
        cidr::CidrSet,
        ports::{Port, PortSet},
    },
    protocol::{
        failure::{CniError, Code},
        netconf::user_or_group,
    },
};
use evergreen_kube::pod::{Container, Strings};

const SKIP_INBOUND: &str = "config.linkerd.io/skip-inbound-ports";
const SKIP_OUTBOUND: &str = "config.linkerd.io/skip-outbound-ports";
const SKIP_SUBNETS: &str = "config.linkerd.io/skip-subnets";
const PROXY_UID: &str = "config.linkerd.io/proxy-uid";
const PROXY_GID: &str = "config.linkerd.io/proxy-gid";
const INBOUND_PORT: &str = "config.linkerd.io/inbound-port";
const OUTBOUND_PORT: &str = "config.linkerd.io/outbound-port";
const ADMIN_PORT: &str = "config.linkerd.io/admin-port";
const CONTROL_PORT: &str = "config.linkerd.io/control-port";

const INBOUND_LISTEN: &str = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR";
/// A list since IPv6 support, one address before.
const OUTBOUND_LISTEN: [&str; 2] = [
    "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS",
    "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR",
];
const ADMIN_LISTEN: &str = "LINKERD2_PROXY_ADMIN_LISTEN_ADDR";
const CONTROL_LISTEN: &str = "LINKERD2_PROXY_CONTROL_LISTEN_ADDR";

/// The default user of Linkerd's proxy.
const DEFAULT_UID: u32 = 2102;

/// The annotations that a pod inherits from its namespace. Ports are not inherited: the proxy's container decides where it
/// listens, whatever the namespace says.
pub(super) const INHERITED: [&str; 5] = [SKIP_INBOUND, SKIP_OUTBOUND, SKIP_SUBNETS, PROXY_UID, PROXY_GID];

/// An invalid value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidOverride {
    source: &'static str,
    key: &'static str,
    why: String,
}

/// The overrides of a pod; none or empty where it has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Overrides {
    pub(super) inbound_port: Option<Port>,
    pub(super) outbound_port: Option<Port>,
    /// The proxy's admin and control ports, which serve probes, metrics and tap outside the proxy's policy.
    pub(super) own_ports: PortSet,
    /// Added to the netconf's.
    pub(super) skip_inbound: PortSet,
    /// Replaces the netconf's.
    pub(super) skip_outbound: Option<PortSet>,
    /// Replaces the netconf's.
    pub(super) skip_sources: Option<CidrSet>,
    pub(super) listens_on_ipv6: bool,
    /// With its source and key, for the error about root.
    uid: Option<(&'static str, &'static str, u32)>,
    gid: Option<u32>,
}

/// Annotations by precedence: the pod's, then its namespace's.
struct Annotations<'a> {
    pod: &'a Strings,
    namespace: Option<&'a Strings>,
}

// === impl Overrides ===

impl Overrides {
    pub(super) fn read(
        pod: &Strings,
        namespace: Option<&Strings>,
        proxy: Option<&Container>,
    ) -> Result<Self, InvalidOverride> {
        let annotations = Annotations { pod, namespace };
        let identity = |list: &str| {
            list.parse()
                .map_err(|_| not_a_number(list))
                .and_then(user_or_group)
        };
        let uid = match annotations.parse(PROXY_UID, identity)? {
            Some((source, uid)) => Some((source, PROXY_UID, uid)),
            None => proxy.map(run_as_user).transpose()?.flatten(),
        };
        let gid = annotations.parse(PROXY_GID, identity)?;
        let listens = |variable: &str| proxy.and_then(|p| p.env.get(variable)).map_or("", String::as_str);
        let port =
            |key, variable: &str| match annotations.own(key, |text: &str| text.trim().parse::<Port>())? {
                Some(port) => Ok(Some(port)),
                None => Ok(port_of(listens(variable))),
            };
        Ok(Self {
            inbound_port: port(INBOUND_PORT, INBOUND_LISTEN)?,
            outbound_port: port(OUTBOUND_PORT, OUTBOUND_LISTEN[0])?
                .or_else(|| port_of(listens(OUTBOUND_LISTEN[1]))),
            own_ports: [
                port(ADMIN_PORT, ADMIN_LISTEN)?,
                port(CONTROL_PORT, CONTROL_LISTEN)?,
            ]
            .into_iter()
            .flatten()
            .collect(),
            skip_inbound: annotations
                .parse(SKIP_INBOUND, PortSet::from_annotation)?
                .map(second)
                .unwrap_or_default(),
            skip_outbound: annotations
                .parse(SKIP_OUTBOUND, PortSet::from_annotation)?
                .map(second),
            skip_sources: annotations
                .parse(SKIP_SUBNETS, CidrSet::from_annotation)?
                .map(second),
            listens_on_ipv6: listens(INBOUND_LISTEN).starts_with('['),
            uid,
            gid: gid.map(second).filter(|gid| *gid != 0),
        })
    }

    /// Returns the user and group that bypass the proxy: from the pod, then the netconf, then Linkerd's default user.
    ///
    /// User 0 means no user, since otherwise all traffic of root would bypass the mesh, and requires a group instead. A
    /// group without any user leaves the default user in place.
    pub(super) fn identity(
        &self,
        netconf_uid: Option<u32>,
        netconf_gid: Option<u32>,
    ) -> Result<(Option<u32>, Option<u32>), InvalidOverride> {
        let gid = self.gid.or(netconf_gid);
        match (self.uid, netconf_uid) {
            (Some((source, key, 0)), _) if gid.is_none() => {
                let why = "is 0 and proxy-gid is not set: no connection of root would be redirected; run the \
                           proxy as a user of its own";
                Err(InvalidOverride {
                    source,
                    key,
                    why: why.into(),
                })
            }
            (Some((_, _, uid)), _) | (None, Some(uid)) => Ok((Some(uid).filter(|uid| *uid != 0), gid)),
            (None, None) => Ok((Some(DEFAULT_UID), gid)),
        }
    }
}

/// Returns the user of the proxy's container. Its group is not read: traffic of an app in the same group would bypass the
/// mesh unnoticed.
fn run_as_user(proxy: &Container) -> Result<Option<(&'static str, &'static str, u32)>, InvalidOverride> {
    let (source, key) = ("container linkerd-proxy", "securityContext.runAsUser");
    let uid = proxy.run_as_user.map(user_or_group).transpose();
    let uid = uid.map_err(|why| InvalidOverride { source, key, why })?;
    Ok(uid.map(|uid| (source, key, uid)))
}

/// Returns the port of the first address that has one. An unreadable address must not fail a running pod: then the next
/// source decides.
fn port_of(addresses: &str) -> Option<Port> {
    let port = |address: &str| match address.parse::<SocketAddr>() {
        Ok(address) => Port::new(address.port()),
        Err(_) => address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()),
    };
    addresses.split(',').find_map(|address| port(address.trim()))
}

fn not_a_number(text: &str) -> String {
    format!(
        "is {:?}; write a user or group ID from 0 to 4294967294",
        text.chars().take(40).collect::<String>()
    )
}

fn second<A, B>((_, value): (A, B)) -> B {
    value
}

// === impl Annotations ===

impl Annotations<'_> {
    /// Parses the pod's value, else the namespace's. Returns it with its source.
    fn parse<T, E: fmt::Display>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<(&'static str, T)>, InvalidOverride> {
        let inherited = || Some(("namespace annotation", self.namespace?.get(key)?));
        let Some((source, text)) = self
            .pod
            .get(key)
            .map(|v| ("pod annotation", v))
            .or_else(inherited)
        else {
            return Ok(None);
        };
        let value = parse(text).map_err(|e| InvalidOverride {
            source,
            key,
            why: e.to_string(),
        })?;
        Ok(Some((source, value)))
    }

    /// Parses the pod's own value.
    fn own<T, E: fmt::Display>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, InvalidOverride> {
        Annotations {
            pod: self.pod,
            namespace: None,
        }
        .parse(key, parse)
        .map(|found| found.map(second))
    }
}

// === impl InvalidOverride ===

impl fmt::Display for InvalidOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.source, self.key, self.why)
    }
}

impl std::error::Error for InvalidOverride {}

impl CniError for InvalidOverride {
    fn code(&self) -> Code {
        Code::Pod
    }
}
