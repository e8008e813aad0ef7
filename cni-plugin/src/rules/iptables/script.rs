//! A table of ours in `iptables-restore`'s words, and `iptables-save`'s words read. Pure.

use super::rule;
use crate::{
    net::cidr::Family,
    rules::ruleset::{Difference, Hook, Table},
};

/// Our chains, each with the chain of the kernel that jumps to it.
pub(super) const CHAINS: [(Hook, &str, &str); 2] = [
    (Hook::Prerouting, "PREROUTING", "EVERGREEN_CNI_IN"),
    (Hook::Output, "OUTPUT", "EVERGREEN_CNI_OUT"),
];

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

/// The rules of one of [`CHAINS`].
fn rules(table: &Table, i: usize) -> Vec<String> {
    let (hook, _, chain) = CHAINS[i];
    let ours = table
        .chains
        .iter()
        .filter(|chain| chain.hook == hook)
        .flat_map(|chain| &chain.rules);
    ours.flat_map(|ours| rule::rules(table, ours, chain)).collect()
}

fn line(script: &mut String, text: &str) {
    script.push_str(text);
    script.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

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
