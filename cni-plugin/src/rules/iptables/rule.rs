//! One rule in the syntax of iptables, where it may take several rules. Pure.
//!
//! Written exactly as `iptables-save` prints it, so that the two can be compared as text. Without optional matches such as
//! `comment`: each is one more module that a kernel may lack.

use std::fmt::Write;

use ipnet::IpNet;

use crate::{
    net::{
        cidr::subnets,
        ports::{PortRange, PortSet},
    },
    rules::ruleset::{Elements, Match, Rule, SetName, Table, Verdict},
};

/// The number of ports in one `multiport` match (`XT_MULTI_PORTS` in linux/netfilter/xt_multiport.h); a range counts as
/// two.
const MULTIPORT: usize = 15;

/// Returns the rules, each as `-A CHAIN ...`, that together are equivalent to one of the table's rules.
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

/// Returns the matches that together are equivalent; a set may take several.
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
        groups.last_mut().expect("a group with room exists").push(*range);
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

fn source_match(subnet: IpNet) -> String {
    // `iptables-save` does not show a match of all addresses.
    if subnet.prefix_len() == 0 {
        String::new()
    } else {
        format!(" -s {subnet}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_split_into_full_matches() {
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
