//! Scripts for `iptables-restore`, and the output of `iptables-save`. Pure.

use super::rule;
use crate::{
    net::cidr::Family,
    rules::ruleset::{Difference, Hook, Table},
};

/// The plugin's chains, each with the built-in chain that jumps to it.
pub(super) const CHAINS: [(Hook, &str, &str); 2] = [
    (Hook::Prerouting, "PREROUTING", "EVERGREEN_CNI_IN"),
    (Hook::Output, "OUTPUT", "EVERGREEN_CNI_OUT"),
];

/// The plugin's chains as `iptables-save` prints them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Which of [`CHAINS`] exist.
    chains: [bool; 2],
    /// The number of jumps to each.
    jumps: [usize; 2],
    /// The rules of each, as `-A CHAIN ...`.
    rules: [Vec<String>; 2],
}

// === impl Found ===

impl Found {
    /// Reads the output of `iptables-save -t nat`.
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

/// Returns the script that fills the chains with the table's rules, in place of any others, with one jump to each.
///
/// Naming a chain creates it, or empties an existing one (`iptables-restore --noflush`). All changes happen at once, so no
/// packet sees a partly filled chain.
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

/// Returns the script that removes the chains and the jumps to them, or none when there is nothing to remove.
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

/// Checks that both chains exist, have rules and a jump to each. Returns false when nothing of the plugin exists.
///
/// For when the wanted rules are unknown. It detects less than with nf_tables: there are no comments with a checksum.
pub(super) fn check_complete(family: Family, found: &Found) -> Result<bool, Difference> {
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
        return Err(Difference::new(format!("no rule jumps from {hook} to {place}")));
    }
    Ok(())
}

fn place(family: Family, chain: &str) -> String {
    format!("chain {chain} of the {family} table nat")
}

/// Returns the first difference between the wanted table and the found chains.
pub(super) fn compare(table: &Table, found: &Found) -> Result<(), Difference> {
    for (i, (_, hook, chain)) in CHAINS.into_iter().enumerate() {
        is_reached(table.family, found, i, hook, chain)?;
        let wanted = rules(table, i);
        for n in 0..wanted.len().max(found.rules[i].len()) {
            let (found, wanted) = (found.rules[i].get(n), wanted.get(n));
            if found != wanted {
                let text =
                    |rule: Option<&String>| rule.map_or("missing".to_owned(), |rule| format!("{rule:?}"));
                let (n, place) = (n + 1, place(table.family, chain));
                let (found, wanted) = (text(found), text(wanted));
                return Err(Difference::new(format!(
                    "rule {n} of {place} is {found}; wanted {wanted}"
                )));
            }
        }
    }
    Ok(())
}

/// Returns the wanted rules of one of [`CHAINS`].
fn rules(table: &Table, i: usize) -> Vec<String> {
    let (hook, _, chain) = CHAINS[i];
    let rules = table
        .chains
        .iter()
        .filter(|chain| chain.hook == hook)
        .flat_map(|chain| &chain.rules);
    rules.flat_map(|rule| rule::rules(table, rule, chain)).collect()
}

fn line(script: &mut String, text: &str) {
    script.push_str(text);
    script.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_chains_and_jumps_are_ignored() {
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
