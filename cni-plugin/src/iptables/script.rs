//! A table of ours in `iptables-restore`'s words, and `iptables-save`'s words read. Pure.
//!
//! Rules are written exactly as `iptables-save` shows them, so that the two can be compared as text. They use no match
//! that the job does not need (no `comment`): each is one more module that a kernel may lack.

use crate::{
    cidr::Family,
    ports::{PortRange, PortSet},
    ruleset::{Difference, Elements, Hook, Match, SetName, Table, Verdict},
};
use std::{fmt::Write, net::IpAddr};

/// Our chains, each with the chain of the kernel that jumps to it.
const CHAINS: [(Hook, &str, &str); 2] = [
    (Hook::Prerouting, "PREROUTING", "EVERGREEN_CNI_IN"),
    (Hook::Output, "OUTPUT", "EVERGREEN_CNI_OUT"),
];
/// What one `multiport` match takes (`XT_MULTI_PORTS` in linux/netfilter/xt_multiport.h); a range counts as two.
const MULTIPORT: usize = 15;

/// What `iptables-save` says of our chains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Which of [`CHAINS`] are there.
    chains: [bool; 2],
    /// How many jumps lead to each.
    jumps: [usize; 2],
    /// The rules in each, as `-A CHAIN ...`.
    rules: [Vec<String>; 2],
}

// === impl Found ===

impl Found {
    /// Reads what `iptables-save -t nat` printed.
    pub(super) fn read(saved: &str) -> Self {
        let mut found = Self::default();
        for line in saved.lines() {
            for (i, (_, hook, chain)) in CHAINS.iter().enumerate() {
                let mut words = line.split(' ');
                match (words.next(), words.next()) {
                    (Some(name), _) if name.strip_prefix(':') == Some(chain) => found.chains[i] = true,
                    (Some("-A"), Some(name)) if name == *chain => found.rules[i].push(line.to_owned()),
                    (Some("-A"), Some(name)) if name == *hook && line == jump("-A", hook, chain) => {
                        found.jumps[i] += 1;
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

fn jump(command: &str, hook: &str, chain: &str) -> String {
    format!("{command} {hook} -j {chain}")
}

/// Makes our chains hold the table's rules, whatever was in them, and one jump lead to each.
///
/// To name a chain makes it, or empties it where it is there (`iptables-restore --noflush`). All of it happens at once,
/// so no packet meets a chain that is half full.
pub(super) fn install(table: &Table, found: &Found) -> String {
    let mut script = String::from("*nat\n");
    for (_, _, chain) in CHAINS {
        line(&mut script, &format!(":{chain} - [0:0]"));
    }
    for (i, (_, hook, chain)) in CHAINS.into_iter().enumerate() {
        for _ in 0..found.jumps[i] {
            line(&mut script, &jump("-D", hook, chain));
        }
        line(&mut script, &jump("-A", hook, chain));
        for rule in rules(table, i) {
            line(&mut script, &rule);
        }
    }
    script.push_str("COMMIT\n");
    script
}

/// Takes our chains and the jumps to them away; none where there is nothing of ours.
pub(super) fn removal(found: &Found) -> Option<String> {
    if found.chains == [false, false] {
        return None;
    }
    let mut script = String::from("*nat\n");
    for (i, (_, hook, chain)) in CHAINS.into_iter().enumerate().filter(|(i, _)| found.chains[*i]) {
        for _ in 0..found.jumps[i] {
            line(&mut script, &jump("-D", hook, chain));
        }
        line(&mut script, &format!("-F {chain}\n-X {chain}"));
    }
    script.push_str("COMMIT\n");
    Some(script)
}

/// Ok when what was found could be ours as a whole: both chains, filled, with a jump to each. False when nothing is ours.
///
/// For when nobody can be asked what is wanted. Less than nf_tables can tell: there is no comment to hold a sum.
pub(super) fn is_whole(family: Family, found: &Found) -> Result<bool, Difference> {
    if *found == Found::default() {
        return Ok(false);
    }
    for (i, (_, hook, chain)) in CHAINS.into_iter().enumerate() {
        is_reached(family, found, i, hook, chain)?;
        if found.rules[i].is_empty() {
            return Err(Difference::new(format!("{} is empty", place(family, chain))));
        }
    }
    Ok(true)
}

fn is_reached(family: Family, found: &Found, i: usize, hook: &str, chain: &str) -> Result<(), Difference> {
    let place = place(family, chain);
    if !found.chains[i] {
        return Err(Difference::new(format!("{place} is missing")));
    }
    if found.jumps[i] == 0 {
        return Err(Difference::new(format!("nothing jumps from {hook} to {place}")));
    }
    Ok(())
}

fn place(family: Family, chain: &str) -> String {
    let family = match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    };
    format!("chain {chain} of the {family} table nat")
}

/// The first difference between a table and what was found.
pub(super) fn compare(table: &Table, found: &Found) -> Result<(), Difference> {
    for (i, (_, hook, chain)) in CHAINS.into_iter().enumerate() {
        is_reached(table.family, found, i, hook, chain)?;
        let wanted = rules(table, i);
        for n in 0..wanted.len().max(found.rules[i].len()) {
            let (found, wanted) = (found.rules[i].get(n), wanted.get(n));
            if found != wanted {
                let word =
                    |rule: Option<&String>| rule.map_or("missing".to_owned(), |rule| format!("{rule:?}"));
                let (n, place) = (n + 1, place(table.family, chain));
                let (found, wanted) = (word(found), word(wanted));
                return Err(Difference::new(format!(
                    "rule {n} of {place} is {found}; wanted {wanted}"
                )));
            }
        }
    }
    Ok(())
}

fn line(script: &mut String, text: &str) {
    script.push_str(text);
    script.push('\n');
}

// === Rules ===

/// The rules of one of [`CHAINS`].
fn rules(table: &Table, chain: usize) -> Vec<String> {
    let (hook, _, name) = CHAINS[chain];
    let rules = table
        .chains
        .iter()
        .filter(|chain| chain.hook == hook)
        .flat_map(|chain| &chain.rules);
    rules
        .flat_map(|rule| {
            matches(table, rule.when)
                .into_iter()
                .map(|when| (when, rule.then))
        })
        .map(|(when, then)| match then {
            Verdict::Return => format!("-A {name}{when} -j RETURN"),
            Verdict::Redirect(port) => format!("-A {name}{when} -j REDIRECT --to-ports {port}"),
        })
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
        let _ = match range.first() == range.last() {
            true => write!(list, "{comma}{}", range.first()),
            false => write!(list, "{comma}{}:{}", range.first(), range.last()),
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

    #[test]
    fn what_save_shows_of_others_is_not_ours() {
        let found = Found::read(
            "*nat\n:PREROUTING ACCEPT [0:0]\n:EVERGREEN_CNI_INX - [0:0]\n:EVERGREEN_CNI_OUT - [0:0]\n\
             -A PREROUTING -j EVERGREEN_CNI_INX\n-A OUTPUT -j EVERGREEN_CNI_OUT\n-A OUTPUT -j EVERGREEN_CNI_OUT\n\
             -A EVERGREEN_CNI_OUT -o lo -j RETURN\n-A EVERGREEN_CNI_INX -j RETURN\nCOMMIT\n",
        );
        assert_eq!(
            found,
            Found {
                chains: [false, true],
                jumps: [0, 2],
                rules: [vec![], vec!["-A EVERGREEN_CNI_OUT -o lo -j RETURN".into()]],
            }
        );
        assert_eq!(
            removal(&found).unwrap(),
            "*nat\n-D OUTPUT -j EVERGREEN_CNI_OUT\n-D OUTPUT -j EVERGREEN_CNI_OUT\n-F EVERGREEN_CNI_OUT\n\
             -X EVERGREEN_CNI_OUT\nCOMMIT\n"
        );
        assert_eq!(removal(&Found::default()), None);
    }
}
