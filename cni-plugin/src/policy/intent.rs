//! What should happen to a pod's traffic. Pure: no socket, no file, no kernel.
//!
//! Which pods are meshed and which source overrides which follows linkerd-cni and Linkerd's proxy injector (annotations
//! `config.linkerd.io/*`). Comments mark where the plugin reads more.

use std::fmt;

use super::overrides::{self, InvalidOverride, Overrides};
use crate::{
    net::{
        cidr::{CidrSet, Family},
        ports::{Port, PortSet},
    },
    protocol::netconf::NetConf,
};
use evergreen_kube::pod::{Container, MARKS, PROXY, PROXY_INIT, Pod, Strings, is_marked};

/// The default ports of Linkerd's proxy, from its chart.
const INBOUND_PORT: Port = Port::known(4143);
const OUTBOUND_PORT: Port = Port::known(4140);

const INJECT: &str = "linkerd.io/inject";
const CREATED_BY: &str = "linkerd.io/created-by";
const CONTROL_PLANE: &str = "linkerd.io/control-plane-component";

/// The result of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The pod needs no rules; the reason is for the log.
    Skip(&'static str),
    /// The pod's TCP is redirected to its proxy.
    Redirect(Redirect),
}

/// Everything the rules depend on, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Families to program: IPv4, IPv6 or both, in this order.
    pub families: Vec<Family>,
    /// The proxy's port for inbound connections.
    pub inbound_port: Port,
    /// The proxy's port for outbound connections.
    pub outbound_port: Port,
    /// The user whose connections bypass the proxy. None only together with a group.
    pub proxy_uid: Option<u32>,
    /// The group whose connections bypass the proxy.
    pub proxy_gid: Option<u32>,
    /// Inbound destination ports to redirect; empty means all.
    pub inbound_only: PortSet,
    /// Inbound destination ports that bypass the proxy.
    pub skip_inbound: PortSet,
    /// Outbound destination ports that bypass the proxy.
    pub skip_outbound: PortSet,
    /// Subnets whose inbound connections bypass the proxy.
    pub skip_sources: CidrSet,
}

/// The value of the log key `redirect`.
impl fmt::Display for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families = self.families.iter().map(|family| match family {
            Family::V4 => "4",
            Family::V6 => "6",
        });
        let families: Vec<&str> = families.collect();
        write!(
            f,
            "inbound={} outbound={} ip={}",
            self.inbound_port,
            self.outbound_port,
            families.join(",")
        )?;
        for (key, number) in [("uid", self.proxy_uid), ("gid", self.proxy_gid)] {
            if let Some(number) = number {
                write!(f, " {key}={number}")?;
            }
        }
        for (key, ports) in [
            ("only_inbound", &self.inbound_only),
            ("skip_inbound", &self.skip_inbound),
            ("skip_outbound", &self.skip_outbound),
        ] {
            if !ports.is_empty() {
                write!(f, " {key}={}", ports.to_string().replace(' ', ""))?;
            }
        }
        if !self.skip_sources.is_empty() {
            write!(
                f,
                " skip_sources={}",
                self.skip_sources.to_string().replace(' ', "")
            )?;
        }
        Ok(())
    }
}

/// The decision from the namespace's name and the runtime's annotations alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precheck {
    /// Not meshed: skip the pod without any I/O.
    Pass(&'static str),
    /// Marked by the injector: meshed, unless it has an init container that programs the rules.
    Marked,
    /// Only the API server knows.
    Unknown,
}

/// What the API server answered about a pod.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Its namespace's annotations, if [`needs_namespace`] and readable.
    pub namespace: Option<&'a Strings>,
    /// The ports of Service `default/kubernetes`, if [`needs_service`] and readable.
    pub service_ports: Option<&'a PortSet>,
}

/// Checks a pod before any I/O.
///
/// Exempt namespaces pass unless the pod is marked: the pod that renews this node's credential must never wait for it. A
/// pod that requests injection but has no marks may or may not have a proxy.
pub fn precheck(netconf: &NetConf<'_>, namespace: &str) -> Precheck {
    let annotations = netconf.annotations.as_ref();
    if annotations.is_some_and(is_marked) {
        return Precheck::Marked;
    }
    if netconf.exempt_namespaces.iter().any(|n| n == namespace) {
        return Precheck::Pass("namespace is exempt");
    }
    match annotations {
        Some(a) if !requests_injection(a) && !netconf.always_ask => {
            Precheck::Pass("runtime annotations show no injection")
        }
        _ => Precheck::Unknown,
    }
}

fn requests_injection(annotations: &Strings) -> bool {
    matches!(
        annotations.get(INJECT).map(String::as_str),
        Some("enabled" | "ingress")
    )
}

/// Returns true when the namespace's annotations can matter. Pods injected by the webhook have them already, and pods with
/// every key of their own override them.
pub fn needs_namespace(pod: &Pod) -> bool {
    let by_webhook = pod
        .annotations
        .get(CREATED_BY)
        .is_some_and(|by| by.starts_with("linkerd/proxy-injector"));
    pod.proxy().is_some()
        && !by_webhook
        && !overrides::INHERITED
            .iter()
            .all(|key| pod.annotations.contains_key(*key))
}

/// Returns true for pods of the control plane, whose connections to the API server bypass the proxy.
pub fn needs_service(pod: &Pod) -> bool {
    pod.proxy().is_some() && pod.labels.contains_key(CONTROL_PLANE)
}

/// Decides from the API server's answers. `families` are those of the pod's addresses, empty when unknown.
pub fn decide(
    netconf: &NetConf<'_>,
    facts: Facts<'_>,
    families: &[Family],
) -> Result<Decision, InvalidOverride> {
    let pod = facts.pod;
    let Some(proxy) = pod.proxy() else {
        return Ok(Decision::Skip(if pod.has_init_container(PROXY_INIT) {
            "pod has an init container that programs the rules itself"
        } else {
            "pod has no proxy container"
        }));
    };
    let overrides = Overrides::read(&pod.annotations, facts.namespace, Some(proxy))?;
    let mut redirect = redirect(netconf, overrides, families)?;
    if needs_service(pod) {
        let ports = facts.service_ports.cloned().unwrap_or_else(default_api_ports);
        redirect.skip_outbound = redirect.skip_outbound.union(ports);
    }
    Ok(Decision::Redirect(redirect))
}

/// Decides from the runtime's annotations alone, when the API server is unavailable. The injector writes all that matters
/// to the pod's annotations; the proxy's container is unknown, so netconf and defaults replace it.
pub fn decide_by_annotations(
    netconf: &NetConf<'_>,
    families: &[Family],
) -> Result<Decision, InvalidOverride> {
    let annotations = netconf.annotations.as_ref();
    match annotations.filter(|a| is_marked(a)) {
        Some(annotations) => {
            let overrides = Overrides::read(annotations, None, None)?;
            let mut redirect = redirect(netconf, overrides, families)?;
            if looks_like_control_plane(annotations) {
                redirect.skip_outbound = redirect.skip_outbound.union(default_api_ports());
            }
            Ok(Decision::Redirect(redirect))
        }
        None => Ok(Decision::Skip("runtime annotations show no injection")),
    }
}

/// Returns true for what is most likely a pod of the control plane, which must reach the API server. Runtimes pass no
/// labels, but these pods have the first two marks, from their chart, and none of an injector.
fn looks_like_control_plane(annotations: &Strings) -> bool {
    let injected = |by: &String| by.starts_with("linkerd/proxy-injector") || by.starts_with("linkerd/cli");
    MARKS[..2].iter().all(|mark| annotations.contains_key(*mark))
        && !annotations.get(CREATED_BY).is_some_and(injected)
}

/// Returns the API server's default ports: 443 of its Service, 6443 of its usual endpoints.
fn default_api_ports() -> PortSet {
    [Port::known(443), Port::known(6443)].into_iter().collect()
}

/// Returns the containers that run as the proxy's user: their traffic bypasses the mesh, which the log should say.
pub fn containers_with_proxy_user<'a>(pod: &'a Pod, redirect: &Redirect) -> Vec<&'a str> {
    let Some(uid) = redirect.proxy_uid else {
        return Vec::new();
    };
    let runs_as = |c: &Container| c.run_as_user.or(pod.run_as_user) == Some(i64::from(uid));
    // Init containers often use this user on purpose, to reach the network before the proxy runs.
    pod.containers
        .iter()
        .filter(|c| c.name != PROXY && runs_as(c))
        .map(|c| &*c.name)
        .collect()
}

fn redirect(netconf: &NetConf<'_>, pod: Overrides, families: &[Family]) -> Result<Redirect, InvalidOverride> {
    let proxy = netconf.proxy;
    let (uid, gid) = pod.identity(proxy.uid, proxy.gid)?;
    Ok(Redirect {
        families: families_to_program(families, netconf.ipv6 || pod.listens_on_ipv6),
        inbound_port: pod.inbound_port.or(proxy.inbound_port).unwrap_or(INBOUND_PORT),
        outbound_port: pod.outbound_port.or(proxy.outbound_port).unwrap_or(OUTBOUND_PORT),
        proxy_uid: uid,
        proxy_gid: gid,
        inbound_only: netconf.inbound_only.clone(),
        skip_inbound: netconf
            .skip_inbound
            .clone()
            .union(pod.skip_inbound)
            .union(pod.own_ports),
        skip_outbound: pod.skip_outbound.unwrap_or_else(|| netconf.skip_outbound.clone()),
        skip_sources: pod.skip_sources.unwrap_or_else(|| netconf.skip_sources.clone()),
    })
}

/// Returns the families to program: IPv4 if the pod has it, IPv6 if it has nothing else or if it is wanted. Unknown families
/// mean IPv4, as in linkerd-cni.
fn families_to_program(families: &[Family], ipv6: bool) -> Vec<Family> {
    match families {
        [Family::V6] => vec![Family::V6],
        [Family::V4, Family::V6] if ipv6 => vec![Family::V4, Family::V6],
        [] if ipv6 => vec![Family::V4, Family::V6],
        _ => vec![Family::V4],
    }
}

#[cfg(test)]
mod tests;
