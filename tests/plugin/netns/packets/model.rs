//! What should become of a connection, worked out a second time and as simply as can be, from linkerd-cni's contract and
//! not from our rules. It shares no code with the plugin: ports and subnets are read from their text anew.

use std::net::{IpAddr, SocketAddr};

use super::configurations::Configuration;

/// Who starts a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// A process in the pod, with its user and group.
    Pod { uid: u32, gid: u32 },
    /// Somebody outside, at this address.
    World(IpAddr),
}

/// How.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// One connection that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) from: From,
    pub(super) to: SocketAddr,
    pub(super) protocol: Protocol,
}

/// The proxy's port a connection ends at, or none when it ends where it was to go.
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

/// Skip the ports to ignore, then the subnets to ignore by source, then redirect all or the listed ports.
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

/// Skip the proxy's user, then its group, then what leaves by `lo`, then the ports to ignore; redirect the rest.
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

/// The ranges of a list of ports.
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

/// Compares the first bits, one by one.
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

/// The first and the last address of a subnet, and the ones just outside where there are some.
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

/// Leaves out what no packet may come from.
fn can_be_a_source(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => !(a.octets()[0] == 0 || a.is_loopback() || a.octets()[0] >= 224),
        IpAddr::V6(a) => {
            let first = a.segments()[0];
            // Loopback and the mapped addresses, link-local and multicast.
            first != 0 && first & 0xffc0 != 0xfe80 && first & 0xff00 != 0xff00
        }
    }
}
