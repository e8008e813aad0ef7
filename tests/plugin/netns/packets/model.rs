//! The expected end of each connection, from linkerd-cni's contract. Shares no code with the plugin, not even the
//! parsers of ports and subnets.

use std::net::{IpAddr, SocketAddr};

use super::configurations::Configuration;

/// The origin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// A process in the pod, with its user and group.
    Pod { uid: u32, gid: u32 },
    /// A sender outside the pod, at this address.
    World(IpAddr),
}

/// The transport protocol of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// A connection to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) from: From,
    pub(super) to: SocketAddr,
    pub(super) protocol: Protocol,
}

/// Returns the proxy port at which a connection ends, or none if it is not redirected.
pub(super) fn proxy_port(configuration: &Configuration, probe: &Probe) -> Option<u16> {
    if probe.protocol == Protocol::Udp {
        return None;
    }
    if !configuration
        .families
        .contains(if probe.to.is_ipv4() { '4' } else { '6' })
    {
        return None;
    }
    match probe.from {
        From::World(source) => inbound(configuration, source, probe.to.port()),
        From::Pod { uid, gid } => outbound(configuration, uid, gid, probe.to),
    }
}

/// Inbound order: skip ignored ports, skip ignored source subnets, redirect all or the listed ports.
fn inbound(configuration: &Configuration, source: IpAddr, port: u16) -> Option<u16> {
    if port_in(configuration.skip_inbound, port) {
        return None;
    }
    if configuration
        .skip_sources
        .split(',')
        .any(|subnet| address_in(subnet, source))
    {
        return None;
    }
    if !configuration.inbound_only.is_empty() && !port_in(configuration.inbound_only, port) {
        return None;
    }
    Some(configuration.inbound_port)
}

/// Outbound order: skip the proxy's user, its group, traffic through `lo`, and ignored ports; redirect the rest.
fn outbound(configuration: &Configuration, uid: u32, gid: u32, to: SocketAddr) -> Option<u16> {
    if configuration.uid == Some(uid) || configuration.gid == Some(gid) {
        return None;
    }
    if to.ip().is_loopback() || super::POD.contains(&to.ip().to_string().as_str()) {
        return None;
    }
    if port_in(configuration.skip_outbound, to.port()) {
        return None;
    }
    Some(configuration.outbound_port)
}

fn port_in(list: &str, port: u16) -> bool {
    ranges(list)
        .iter()
        .any(|(first, last)| (*first..=*last).contains(&port))
}

/// Parses a list of ports into ranges.
pub(super) fn ranges(list: &str) -> Vec<(u16, u16)> {
    let number = |text: &str| text.trim().parse::<u16>().expect("a port");
    let entries = list.split(',').filter(|entry| !entry.trim().is_empty());
    entries
        .map(|entry| match entry.split_once('-') {
            Some((first, last)) => (number(first), number(last)),
            None => (number(entry), number(entry)),
        })
        .collect()
}

/// Compares the bits of the prefix one by one.
fn address_in(subnet: &str, address: IpAddr) -> bool {
    let Some((network, prefix)) = subnet.trim().split_once('/') else {
        return false;
    };
    let network: IpAddr = network.parse().expect("an address");
    let prefix: usize = prefix.parse().expect("a prefix length");
    let (network, address) = (bits(network), bits(address));
    network.len() == address.len() && network[..prefix] == address[..prefix]
}

fn bits(address: IpAddr) -> Vec<bool> {
    let bytes = match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1))
        .collect()
}

/// Returns the first and last address of a subnet and their neighbours outside it.
pub(super) fn edges(subnet: &str) -> Vec<IpAddr> {
    let Some((network, prefix)) = subnet.trim().split_once('/') else {
        return vec![];
    };
    let (network, width): (u128, u32) = match network.parse().expect("an address") {
        IpAddr::V4(a) => (a.to_bits().into(), 32),
        IpAddr::V6(a) => (a.to_bits(), 128),
    };
    let prefix: u32 = prefix.parse().expect("a prefix length");
    let all = if width == 128 { u128::MAX } else { (1 << width) - 1 };
    let host = if prefix == 0 {
        all
    } else {
        (1 << (width - prefix)) - 1
    };
    let (first, last) = (network & !host, network | host);
    let edges = [
        first.checked_sub(1),
        Some(first),
        Some(last),
        last.checked_add(1).filter(|n| *n <= all),
    ];
    edges
        .into_iter()
        .flatten()
        .map(|number| match width {
            32 => IpAddr::V4((number as u32).into()),
            _ => IpAddr::V6(number.into()),
        })
        .filter(|address| can_be_a_source(*address))
        .collect()
}

/// Excludes addresses that cannot be a source.
fn can_be_a_source(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => !(a.octets()[0] == 0 || a.is_loopback() || a.octets()[0] >= 224),
        IpAddr::V6(a) => {
            let first = a.segments()[0];
            // Excludes loopback, mapped, link-local and multicast addresses.
            first != 0 && first & 0xffc0 != 0xfe80 && first & 0xff00 != 0xff00
        }
    }
}
