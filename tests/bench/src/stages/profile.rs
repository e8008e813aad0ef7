//! A parser for callgrind's file: the instructions of each function including its callees.

use std::{collections::HashMap, fs, path::Path};

use anyhow::{Context, Result};

/// Instructions by function.
pub struct Profile {
    total: u64,
    inclusive: HashMap<String, u64>,
}

impl Profile {
    /// Reads a file of valgrind's "callgrind format", version 1.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&String::from_utf8_lossy(&text)).with_context(|| format!("in {}", path.display()))
    }

    /// `fn=(ID) NAME` starts a function; later references have only the ID. Lines of `POSITION COST` follow; the one after
    /// `calls=` is the inclusive cost of the call.
    fn parse(text: &str) -> Result<Self> {
        let mut names: HashMap<&str, &str> = HashMap::new();
        let mut by_id: HashMap<&str, u64> = HashMap::new();
        let mut total = None;
        let mut current = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
                let (id, name) = rest.split_once(' ').unwrap_or((rest, ""));
                if !name.is_empty() {
                    names.insert(id, name);
                }
                if line.starts_with("fn=") {
                    current = id;
                }
            } else if let Some(rest) = line.strip_prefix("totals: ") {
                total = Some(rest.trim().parse()?);
            } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
                let cost = line.split(' ').nth(1).context("a line without a cost")?;
                *by_id.entry(current).or_default() += cost.parse::<u64>()?;
            }
        }
        let mut inclusive = HashMap::new();
        for (id, cost) in by_id {
            // Recursive calls have entries of their own, such as NAME'2.
            let name = names.get(id).copied().unwrap_or_default().to_owned();
            *inclusive.entry(name).or_default() += cost;
        }
        Ok(Self {
            total: total.context("no line of totals")?,
            inclusive,
        })
    }

    /// Returns all instructions of the program.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the instructions of a function and its callees.
    pub fn inclusive(&self, function: &str) -> Result<u64> {
        let found = self.inclusive.get(function).copied();
        found.with_context(|| {
            format!("no function {function} in the profile: it was renamed or inlined; name another one in tests/bench/src/stages.rs")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inclusive_cost_contains_callees() {
        let text = "version: 1\nevents: Ir\n\nfn=(1) main\n0 10\ncfn=(2) work\ncalls=2 0\n0 30\n+1 1\n\n\
                    fn=(2)\n0 25\ncfn=(3) leaf\ncalls=1 0\n* 5\n\nfn=(3)\n0 5\n\ntotals: 41\n";
        let profile = Profile::parse(text).unwrap();
        let counts = ["main", "work", "leaf"].map(|f| profile.inclusive(f).unwrap());
        assert_eq!((profile.total(), counts), (41, [41, 30, 5]));
        assert!(
            profile
                .inclusive("gone")
                .unwrap_err()
                .to_string()
                .contains("gone")
        );
    }
}
