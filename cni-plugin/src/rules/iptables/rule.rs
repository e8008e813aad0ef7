//! One rule of ours in iptables' words, which may take several rules there. Pure.
//!
//! Written exactly as `iptables-save` shows it, so that the two can be compared as text, and with no match that the job
//! does not need (no `comment`): each is one more module that a kernel may lack.

use std::{fmt::Write, net::IpAddr};

use crate::{
    net::ports::{PortRange, PortSet},
    rules::ruleset::{Elements, Match, Rule, SetName, Table, Verdict},
};

/// What one `multiport` match takes (`XT_MULTI_PORTS` in linux/netfilter/xt_multiport.h); a range counts as two.
const MULTIPORT: usize = 15;

/// The rules, each as `-A CHAIN ...`, that together do what one of the table's rules does.
pub(super) fn rules(table: &Table, rule: &Rule, chain: &str) -> Vec<String> {
    let target = match rule.then {
        Verdict::Return => "RETURN".to_owned(),
        Verdict::Redirect(port) => format!("REDIRECT --to-ports {port}"),
    };
    let matches = matches(table, rule.when);
    matches
        .into_iter()
        .map(|when| format!("-A {chain}{when} -j {target}"))
        .collect()
}

/// The matches that together say the same; a set takes as many rules as it needs.
fn matches(table: &Table, when: Match) -> Vec<String> {
    match when {
        Match::User(uid) => vec![format!(" -m owner --uid-owner {uid}")],
        Match::Group(gid) => vec![format!(" -m owner --gid-owner {gid}")],
        Match::Loopback => vec![" -o lo".to_owned()],
        Match::Tcp => vec![" -p tcp".to_owned()],
        Match::PortIn(set) | Match::SourceIn(set) => match elements(table, set) {
            Some(Elements::Ports(ports)) => port_matches(ports),
            Some(Elements::Addresses(ranges)) => ranges
                .iter()
                .flat_map(|&(first, last)| subnets(first, last))
                .map(source_match)
                .collect(),
            None => vec![],
        },
    }
}

fn elements(table: &Table, name: SetName) -> Option<&Elements> {
    table
        .sets
        .iter()
        .find(|set| set.name == name)
        .map(|set| &set.elements)
}

fn port_matches(ports: &PortSet) -> Vec<String> {
    let width = |range: &PortRange| if range.first() == range.last() { 1 } else { 2 };
    let mut groups: Vec<Vec<PortRange>> = Vec::new();
    let mut room = 0;
    for range in ports.ranges() {
        if room < width(range) {
            groups.push(Vec::new());
            room = MULTIPORT;
        }
        room -= width(range);
        groups.last_mut().expect("there is room in it").push(*range);
    }
    groups.iter().map(|group| port_match(group)).collect()
}

fn port_match(group: &[PortRange]) -> String {
    let mut list = String::new();
    for (i, range) in group.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        // Writing into a string cannot fail.
        let _ = if range.first() == range.last() {
            write!(list, "{comma}{}", range.first())
        } else {
            write!(list, "{comma}{}:{}", range.first(), range.last())
        };
    }
    match group.len() {
        1 => format!(" -p tcp -m tcp --dport {list}"),
        _ => format!(" -p tcp -m multiport --dports {list}"),
    }
}

fn source_match((address, prefix): (IpAddr, u32)) -> String {
    // A match that matches all is not shown, and would not be found again.
    if prefix == 0 {
        String::new()
    } else {
        format!(" -s {address}/{prefix}")
    }
}

/// A range of addresses as the fewest subnets, each an address and a prefix length.
fn subnets(first: IpAddr, last: IpAddr) -> Vec<(IpAddr, u32)> {
    let (mut at, end, width) = match (first, last) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return vec![],
    };
    let mut subnets = Vec::new();
    loop {
        // The largest block that starts here, by its zero bits, and does not pass the end.
        let mut bits = at.trailing_zeros().min(width);
        while last_of(at, bits) > end {
            bits -= 1;
        }
        let address = match width {
            32 => IpAddr::V4((at as u32).into()),
            _ => IpAddr::V6(at.into()),
        };
        subnets.push((address, width - bits));
        match last_of(at, bits).checked_add(1) {
            Some(next) if next <= end => at = next,
            _ => return subnets,
        }
    }
}

fn last_of(first: u128, bits: u32) -> u128 {
    first | 1u128.checked_shl(bits).unwrap_or(0).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_the_fewest_subnets() {
        for (first, last, expected) in [
            ("10.0.0.0", "10.0.0.0", "10.0.0.0/32"),
            ("10.0.0.0", "10.0.1.255", "10.0.0.0/23"),
            ("10.0.0.0", "10.0.2.255", "10.0.0.0/23 10.0.2.0/24"),
            ("0.0.0.0", "255.255.255.255", "0.0.0.0/0"),
            ("255.255.255.254", "255.255.255.255", "255.255.255.254/31"),
            (
                "0.0.0.1",
                "0.0.0.6",
                "0.0.0.1/32 0.0.0.2/31 0.0.0.4/31 0.0.0.6/32",
            ),
            ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
            ("fd00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fd00::/8"),
        ] {
            let found = subnets(first.parse().unwrap(), last.parse().unwrap());
            let found: Vec<String> = found
                .iter()
                .map(|(address, prefix)| format!("{address}/{prefix}"))
                .collect();
            assert_eq!(found.join(" "), expected, "{first}-{last}");
        }
    }

    #[test]
    fn ports_are_split_where_a_match_is_full_and_a_range_counts_twice() {
        let ports = |list| PortSet::from_annotation(list).unwrap();
        for (list, expected) in [
            ("", vec![]),
            ("80", vec![" -p tcp -m tcp --dport 80"]),
            ("1-65535", vec![" -p tcp -m tcp --dport 1:65535"]),
            (
                "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29",
                vec![" -p tcp -m multiport --dports 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29"],
            ),
            (
                "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29-30,32",
                vec![
                    " -p tcp -m multiport --dports 1,3,5,7,9,11,13,15,17,19,21,23,25,27",
                    " -p tcp -m multiport --dports 29:30,32",
                ],
            ),
        ] {
            assert_eq!(port_matches(&ports(list)), expected, "{list}");
        }
    }
}
