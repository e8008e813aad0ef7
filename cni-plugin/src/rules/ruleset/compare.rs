//! The first difference between the rules in the kernel and the wanted ones, as text.

use std::fmt;

use super::{Chain, Hook, Rule, Ruleset, TABLE, Table, title};

/// The first difference between found and wanted rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference(String);

impl Ruleset {
    /// Compares these rules, found in the kernel, with the wanted ones.
    pub fn matches(&self, wanted: &Self) -> Result<(), Difference> {
        for table in &wanted.tables {
            match self.tables.iter().find(|found| found.family == table.family) {
                Some(found) => found.matches(table)?,
                None => return Err(Difference(format!("table {} is missing", title(table.family)))),
            }
        }
        match self
            .tables
            .iter()
            .find(|found| wanted.tables.iter().all(|t| t.family != found.family))
        {
            Some(extra) => Err(Difference(format!(
                "table {} should not be there",
                title(extra.family)
            ))),
            None => Ok(()),
        }
    }

    /// Compares these rules, found in the kernel, with their own comments, for when the wanted rules are unknown.
    ///
    /// Success means that nothing was lost or changed since ADD, not that the rules are still right.
    pub fn is_whole(&self) -> Result<(), Difference> {
        if self.tables.is_empty() {
            return Err(Difference(format!("there is no table {TABLE}")));
        }
        for table in &self.tables {
            for hook in [Hook::Prerouting, Hook::Output] {
                let found = table.chains.iter().find(|chain| chain.hook == hook);
                found.ok_or_else(|| table.lacks(hook))?.is_counted(table)?;
            }
        }
        let sum = self.sum();
        let rules = self.tables.iter().flat_map(|t| &t.chains).flat_map(|c| &c.rules);
        match rules.map(Rule::sum).find(|written| *written != sum) {
            Some(written) => Err(Difference(format!(
                "rules or sets of {TABLE} have changed since ADD wrote them: their checksum is {sum}, their comments say {written}"
            ))),
            None => Ok(()),
        }
    }
}

impl Table {
    fn matches(&self, wanted: &Self) -> Result<(), Difference> {
        let title = title(wanted.family);
        for set in &wanted.sets {
            match self.sets.iter().find(|found| found.name == set.name) {
                None => {
                    return Err(Difference(format!(
                        "set {} of table {title} is missing",
                        set.name
                    )));
                }
                Some(found) if found == set => {}
                Some(found) => {
                    let (found, wanted) = (found.elements.excerpt(), set.elements.excerpt());
                    return Err(Difference(format!(
                        "set {} of table {title} holds {found}; wanted {wanted}",
                        set.name
                    )));
                }
            }
        }
        if let Some(extra) = self
            .sets
            .iter()
            .find(|found| wanted.sets.iter().all(|s| s.name != found.name))
        {
            return Err(Difference(format!(
                "set {} of table {title} should not be there",
                extra.name
            )));
        }
        for chain in &wanted.chains {
            match self.chains.iter().find(|found| found.hook == chain.hook) {
                Some(found) => found.matches(chain, wanted)?,
                None => return Err(self.lacks(chain.hook)),
            }
        }
        Ok(())
    }

    fn lacks(&self, hook: Hook) -> Difference {
        Difference(format!(
            "chain {} of table {} is missing",
            hook.name(),
            title(self.family)
        ))
    }
}

impl Chain {
    fn matches(&self, wanted: &Self, table: &Table) -> Result<(), Difference> {
        let place = |i: usize| {
            format!(
                "rule {} of chain {} in table {}",
                i + 1,
                wanted.hook.name(),
                title(table.family)
            )
        };
        for (i, rule) in wanted.rules.iter().enumerate() {
            match self.rules.get(i) {
                None => {
                    return Err(Difference(format!(
                        "{} is missing: {}",
                        place(i),
                        rule.text(table.family)
                    )));
                }
                // Comments may differ between versions of the plugin.
                Some(found) if (found.when, found.then) == (rule.when, rule.then) => {}
                Some(found) => {
                    let (found, wanted) = (found.text(table.family), rule.text(table.family));
                    return Err(Difference(format!("{} is {found}; wanted {wanted}", place(i))));
                }
            }
        }
        match self.rules.get(wanted.rules.len()) {
            Some(extra) => {
                let (place, extra) = (place(wanted.rules.len()), extra.text(table.family));
                Err(Difference(format!("{place} should not be there: {extra}")))
            }
            None => Ok(()),
        }
    }

    /// Checks that the chain has rules, in the number and order that their comments state.
    fn is_counted(&self, table: &Table) -> Result<(), Difference> {
        let place = format!("chain {} in table {}", self.hook.name(), title(table.family));
        if self.rules.is_empty() {
            return Err(Difference(format!("{place} is empty")));
        }
        for (i, rule) in self.rules.iter().enumerate() {
            let position = format!("{}/{}", i + 1, self.rules.len());
            if rule.position() != position {
                let found = &rule.comment;
                return Err(Difference(format!(
                    "rule {position} of {place} has the comment {found:?}"
                )));
            }
        }
        Ok(())
    }
}

// === impl Difference ===

impl Difference {
    /// A difference found before rules can be compared one by one.
    pub fn new(what: String) -> Self {
        Self(what)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Difference {}
