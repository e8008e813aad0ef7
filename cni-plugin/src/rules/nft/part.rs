//! The messages of a batch as an error names them. Apart from `encode`, because errors depend on it, too.

use std::fmt;

use crate::{
    net::cidr::Family,
    rules::ruleset::{Chain, Set, Table, title},
};

/// What one message of a batch does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'a> {
    /// Begins the batch.
    Begin,
    /// Adds the plugin's table.
    AddTable(Family),
    /// Removes the plugin's table.
    RemoveTable(Family),
    /// Adds a chain.
    AddChain(&'a Table, &'a Chain),
    /// Adds a set.
    AddSet(&'a Table, &'a Set),
    /// Adds elements to a set.
    AddElements(&'a Table, &'a Set),
    /// Adds the rule with this index to a chain.
    AddRule(&'a Table, &'a Chain, usize),
    /// Ends the batch.
    End,
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin | Self::End => write!(f, "change the ruleset"),
            Self::AddTable(family) => write!(f, "add table {}", title(*family)),
            Self::RemoveTable(family) => write!(f, "remove table {}", title(*family)),
            Self::AddChain(table, chain) => {
                let (chain, title) = (chain.hook.name(), title(table.family));
                write!(f, "add chain {chain} to table {title}")
            }
            Self::AddSet(table, set) => write!(f, "add set {} to table {}", set.name, title(table.family)),
            Self::AddElements(table, set) => {
                let title = title(table.family);
                write!(f, "add elements to set {} of table {title}", set.name)
            }
            Self::AddRule(table, chain, index) => {
                let (hook, title) = (chain.hook.name(), title(table.family));
                write!(f, "add rule {} of chain {hook} in table {title}", index + 1)?;
                match chain.rules.get(*index) {
                    Some(rule) => write!(f, " ({})", rule.purpose()),
                    None => Ok(()),
                }
            }
        }
    }
}
