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
            let mut tables = self.tables.iter();
            let found = tables.find(|found| found.family == table.family);
            found
                .ok_or_else(|| missing(format_args!("table {}", title(table.family))))?
                .matches(table)?;
        }
        let is_extra = |found: &&Table| wanted.tables.iter().all(|table| table.family != found.family);
        match self.tables.iter().find(is_extra) {
            Some(extra) => Err(unwanted(format_args!("table {}", title(extra.family)))),
            None => Ok(()),
        }
    }

    /// Compares these rules, found in the kernel, with their own comments, for when the wanted rules are unknown.
    ///
    /// Success means that nothing was lost or changed since ADD, not that the rules are still right.
    pub fn matches_comments(&self) -> Result<(), Difference> {
        if self.tables.is_empty() {
            return Err(Difference(format!("there is no table {TABLE}")));
        }
        for table in &self.tables {
            for hook in [Hook::Prerouting, Hook::Output] {
                table.chain(hook)?.positions_match(table)?;
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
            let place = format!("set {} of table {title}", set.name);
            let found = self.sets.iter().find(|found| found.name == set.name);
            let found = found.ok_or_else(|| missing(&place))?;
            if found != set {
                let (found, wanted) = (found.elements.excerpt(), set.elements.excerpt());
                return Err(Difference(format!("{place} holds {found}; wanted {wanted}")));
            }
        }
        let mut sets = self.sets.iter();
        if let Some(extra) = sets.find(|found| wanted.sets.iter().all(|set| set.name != found.name)) {
            return Err(unwanted(format_args!("set {} of table {title}", extra.name)));
        }
        for chain in &wanted.chains {
            self.chain(chain.hook)?.matches(chain, wanted)?;
        }
        Ok(())
    }

    fn chain(&self, hook: Hook) -> Result<&Chain, Difference> {
        let found = self.chains.iter().find(|chain| chain.hook == hook);
        found.ok_or_else(|| {
            let (hook, title) = (hook.name(), title(self.family));
            missing(format_args!("chain {hook} of table {title}"))
        })
    }
}

impl Chain {
    fn matches(&self, wanted: &Self, table: &Table) -> Result<(), Difference> {
        for i in 0..self.rules.len().max(wanted.rules.len()) {
            let text = |rule: &Rule| rule.text(table.family);
            let difference = match (self.rules.get(i), wanted.rules.get(i)) {
                // Comments may differ between versions of the plugin.
                (Some(found), Some(rule)) if (found.when, found.then) == (rule.when, rule.then) => continue,
                (Some(found), Some(rule)) => format!("is {}; wanted {}", text(found), text(rule)),
                (Some(found), None) => format!("should not be there: {}", text(found)),
                (None, Some(rule)) => format!("is missing: {}", text(rule)),
                (None, None) => break,
            };
            let (n, place) = (i + 1, self.place(table));
            return Err(Difference(format!("rule {n} of {place} {difference}")));
        }
        Ok(())
    }

    /// Checks that the chain has rules, in the number and order that their comments state.
    fn positions_match(&self, table: &Table) -> Result<(), Difference> {
        let place = self.place(table);
        if self.rules.is_empty() {
            return Err(Difference(format!("{place} is empty")));
        }
        for (i, rule) in self.rules.iter().enumerate() {
            let position = format!("{}/{}", i + 1, self.rules.len());
            if rule.position() != position {
                let comment = &rule.comment;
                return Err(Difference(format!(
                    "rule {position} of {place} has the comment {comment:?}"
                )));
            }
        }
        Ok(())
    }

    fn place(&self, table: &Table) -> String {
        format!("chain {} in table {}", self.hook.name(), title(table.family))
    }
}

// === impl Difference ===

fn missing(thing: impl fmt::Display) -> Difference {
    Difference(format!("{thing} is missing"))
}

fn unwanted(thing: impl fmt::Display) -> Difference {
    Difference(format!("{thing} should not be there"))
}

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
