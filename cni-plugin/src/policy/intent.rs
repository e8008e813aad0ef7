//! What should happen to the pod's traffic. Pure: knows no socket, no file, no kernel.
//!
//! The rules of who is meshed and what overrides what are the ones of linkerd-cni and of Linkerd's proxy injector
//! (its annotations `config.linkerd.io/*`); where we read more, the line says so.

use std::fmt;

use super::overrides::{self, InvalidOverride, Overrides};
use crate::{
    net::{
        cidr::{CidrSet, Family},
        ports::{Port, PortSet},
    },
    protocol::netconf::NetConf,
};
use evergreen_kube::pod::{Container, PROXY, Pod, Strings};

/// The init container that programs the rules itself where no CNI plugin does.
pub const PROXY_INIT: &str = "linkerd-init";

/// The injector's marks on every pod that it gave a proxy, by webhook or by hand.
pub const MARKS: [&str; 3] = [
    "linkerd.io/proxy-version",
    "linkerd.io/trust-root-sha256",
    "linkerd.io/created-by",
];

/// Where Linkerd's proxy listens when nobody says otherwise (its chart's values).
const INBOUND_PORT: Port = Port::known(4143);
const OUTBOUND_PORT: Port = Port::known(4140);

const INJECT: &str = "linkerd.io/inject";
const CREATED_BY: &str = "linkerd.io/created-by";
const CONTROL_PLANE: &str = "linkerd.io/control-plane-component";

/// What the call comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is to be programmed; the reason is for the log.
    Skip(&'static str),
    /// The pod's TCP goes through its proxy.
    Redirect(Redirect),
}

/// All that the rules are made of. Every number has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Families to program: IPv4, IPv6 or both, in this order, never none.
    pub families: Vec<Family>,
    /// Where the proxy accepts what comes in.
    pub inbound_port: Port,
    /// Where the proxy accepts what goes out.
    pub outbound_port: Port,
    /// The user whose own connections are left alone. None only when a group stands in for it.
    pub proxy_uid: Option<u32>,
    /// The group whose own connections are left alone.
    pub proxy_gid: Option<u32>,
    /// Destination ports redirected on the way in; empty means all.
    pub inbound_only: PortSet,
    /// Destination ports left alone on the way in.
    pub skip_inbound: PortSet,
    /// Destination ports left alone on the way out.
    pub skip_outbound: PortSet,
    /// Sources left alone on the way in.
    pub skip_sources: CidrSet,
}

impl fmt::Display for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families: Vec<&str> = self
            .families
            .iter()
            .map(|family| if *family == Family::V4 { "4" } else { "6" })
            .collect();
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
                write!(f, " {key}=\"{ports}\"")?;
            }
        }
        if !self.skip_sources.is_empty() {
            write!(f, " skip_sources=\"{}\"", self.skip_sources)?;
        }
        Ok(())
    }
}

/// What can be said of a pod from its name and the runtime's annotations alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precheck {
    /// Not meshed: pass it on, ask nobody.
    Pass(&'static str),
    /// Marked by the injector: meshed, unless it brings its own init container.
    Marked,
    /// Only the API server can tell.
    Unknown,
}

/// What the API server knows of a pod, as far as it was asked.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Its namespace's annotations, where [`needs_namespace`] wanted them and they could be read.
    pub namespace: Option<&'a Strings>,
    /// The ports of Service `default/kubernetes`, where [`needs_service`] wanted them and they could be read.
    pub service_ports: Option<&'a PortSet>,
}

/// Looks at what is at hand before anything is read or asked.
///
/// Exempt namespaces pass unless the pod is marked: the pod that would heal this node's credential must never wait
/// for it. A pod that asks for injection without marks may or may not have a proxy.
pub fn precheck(netconf: &NetConf<'_>, namespace: &str) -> Precheck {
    let annotations = netconf.annotations.as_ref();
    if annotations.is_some_and(|a| MARKS.iter().any(|mark| a.contains_key(*mark))) {
        return Precheck::Marked;
    }
    if netconf.exempt_namespaces.iter().any(|n| n == namespace) {
        return Precheck::Pass("namespace is exempt");
    }
    match annotations {
        Some(a) if !asks_for_injection(a) && !netconf.always_ask => {
            Precheck::Pass("runtime annotations show no mark of injection")
        }
        _ => Precheck::Unknown,
    }
}

fn asks_for_injection(annotations: &Strings) -> bool {
    matches!(
        annotations.get(INJECT).map(String::as_str),
        Some("enabled" | "ingress")
    )
}

/// True when the namespace's annotations can still change something. The webhook copies them onto the pod, so pods
/// it made need no second request, nor do pods that carry every key themselves.
pub fn needs_namespace(pod: &Pod) -> bool {
    let by_webhook = pod
        .annotations
        .get(CREATED_BY)
        .is_some_and(|by| by.starts_with("linkerd/proxy-injector"));
    proxy_of(pod).is_some()
        && !by_webhook
        && !overrides::INHERITED
            .iter()
            .all(|key| pod.annotations.contains_key(*key))
}

/// True for pods of the control plane, which talk to the API server past the proxy.
pub fn needs_service(pod: &Pod) -> bool {
    proxy_of(pod).is_some() && pod.labels.contains_key(CONTROL_PLANE)
}

/// The proxy that a CNI plugin is to redirect to, if the pod has one.
fn proxy_of(pod: &Pod) -> Option<&Container> {
    let own_init = pod.init_containers.iter().any(|c| c.name == PROXY_INIT);
    // A native sidecar is an init container that stays.
    let proxy = pod
        .containers
        .iter()
        .chain(&pod.init_containers)
        .find(|c| c.name == PROXY);
    proxy.filter(|_| !own_init)
}

/// Decides from what the API server said. `families` are those the pod has; empty when nothing shows them.
pub fn decide(
    netconf: &NetConf<'_>,
    facts: Facts<'_>,
    families: &[Family],
) -> Result<Decision, InvalidOverride> {
    let pod = facts.pod;
    let Some(proxy) = proxy_of(pod) else {
        let own_init = pod.init_containers.iter().any(|c| c.name == PROXY_INIT);
        return Ok(Decision::Skip(if own_init {
            "pod has an init container that programs the rules itself"
        } else {
            "pod has no proxy container"
        }));
    };
    let overrides = Overrides::read(&pod.annotations, facts.namespace, Some(proxy))?;
    let mut redirect = redirect(netconf, overrides, families)?;
    if needs_service(pod) {
        let ports = facts.service_ports.cloned().unwrap_or_else(usual_api_ports);
        redirect.skip_outbound = redirect.skip_outbound.union(ports);
    }
    Ok(Decision::Redirect(redirect))
}

/// Decides from the runtime's annotations alone, because the API server cannot be asked. The injector copies all
/// that matters onto the pod; the proxy's own container stays unseen, so netconf and defaults stand in for it.
pub fn decide_by_annotations(
    netconf: &NetConf<'_>,
    families: &[Family],
) -> Result<Decision, InvalidOverride> {
    let annotations = netconf.annotations.as_ref();
    match annotations.filter(|a| MARKS.iter().any(|mark| a.contains_key(*mark))) {
        Some(annotations) => {
            let overrides = Overrides::read(annotations, None, None)?;
            let mut redirect = redirect(netconf, overrides, families)?;
            if looks_like_control_plane(annotations) {
                redirect.skip_outbound = redirect.skip_outbound.union(usual_api_ports());
            }
            Ok(Decision::Redirect(redirect))
        }
        None => Ok(Decision::Skip("runtime annotations show no mark of injection")),
    }
}

/// Pods of the control plane carry the first two marks from their chart and none of an injector. Their label would
/// say it, but runtimes hand no labels over; and what would wait for the API server must be able to reach it.
fn looks_like_control_plane(annotations: &Strings) -> bool {
    let injected = |by: &String| by.starts_with("linkerd/proxy-injector") || by.starts_with("linkerd/cli");
    MARKS[..2].iter().all(|mark| annotations.contains_key(*mark))
        && !annotations.get(CREATED_BY).is_some_and(injected)
}

/// The API server's ports where its Service cannot be read: 443 of the Service, 6443 of its usual endpoints.
fn usual_api_ports() -> PortSet {
    [Port::known(443), Port::known(6443)].into_iter().collect()
}

/// Containers of the pod that run as the proxy's user: they leave the mesh unseen, so somebody should be told.
pub fn containers_with_proxy_user<'a>(pod: &'a Pod, redirect: &Redirect) -> Vec<&'a str> {
    let Some(uid) = redirect.proxy_uid else {
        return Vec::new();
    };
    let runs_as = |c: &Container| c.run_as_user.or(pod.run_as_user) == Some(i64::from(uid));
    // Init containers often take this user on purpose, to reach the network before the proxy is up.
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
        families: programmed(families, netconf.ipv6 || pod.listens_on_ipv6),
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

/// IPv4 where the pod has it; IPv6 where the pod has nothing else, or has it and it is wanted. A pod whose families
/// nobody knows gets IPv4, as from linkerd-cni.
fn programmed(families: &[Family], ipv6: bool) -> Vec<Family> {
    match families {
        [Family::V6] => vec![Family::V6],
        [Family::V4, Family::V6] if ipv6 => vec![Family::V4, Family::V6],
        [] if ipv6 => vec![Family::V4, Family::V6],
        _ => vec![Family::V4],
    }
}

#[cfg(test)]
mod tests;
