//! Counts by name, compared with the reference in `stages.txt`.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context, Result};

/// A larger relative difference is a change, not noise.
const TOLERANCE: f64 = 0.03;
/// A smaller difference in instructions is noise, however small the stage.
const NOISE: u64 = 3_000;
const HEAD: &str =
    "# Instructions, as `scripts/bench --stages --write` has counted them. `--check` compares.\n";

/// Counts in the order of the stages.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Figures(Vec<(String, Count)>);

#[derive(Debug, PartialEq, Eq)]
struct Count {
    median: u64,
    /// The difference between the largest and the smallest run.
    spread: u64,
}

/// Counts with their reference.
pub struct Compared<'a> {
    current: &'a Figures,
    reference: BTreeMap<String, u64>,
}

impl Figures {
    /// Adds the counts of several runs.
    pub fn add(&mut self, name: String, mut counts: Vec<u64>) {
        counts.sort_unstable();
        if let (Some(least), Some(most)) = (counts.first(), counts.last()) {
            let (median, spread) = (counts[counts.len() / 2], most - least);
            self.0.push((name, Count { median, spread }));
        }
    }

    /// Stores the counts as the reference.
    pub fn write(&self, path: &Path) -> Result<()> {
        let lines = self
            .0
            .iter()
            .map(|(name, count)| format!("{} {name}\n", count.median));
        let text: String = [HEAD.to_owned()].into_iter().chain(lines).collect();
        fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Reads the reference to compare with.
    pub fn compare(&self, path: &Path) -> Result<Compared<'_>> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let mut reference = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (count, name) = line.split_once(' ').context("a line is COUNT NAME")?;
            reference.insert(name.to_owned(), count.parse()?);
        }
        Ok(Compared {
            current: self,
            reference,
        })
    }
}

impl Compared<'_> {
    /// Returns whether every count equals its reference within the tolerance, and none is missing.
    pub fn are_alike(&self) -> bool {
        self.current.0.len() == self.reference.len()
            && self
                .current
                .0
                .iter()
                .all(|(name, count)| self.is_alike(name, count))
    }

    fn is_alike(&self, name: &str, count: &Count) -> bool {
        self.reference.get(name).is_some_and(|&reference| {
            let apart = reference.abs_diff(count.median);
            apart <= NOISE || apart as f64 <= reference as f64 * TOLERANCE
        })
    }
}

impl fmt::Display for Compared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>12} {:>8} {:>12} {:>8}  stage",
            "instructions", "spread", "reference", "change"
        )?;
        for (name, count) in &self.current.0 {
            write!(f, "{:>12} {:>8}", count.median, count.spread)?;
            match self.reference.get(name) {
                Some(&reference) => {
                    let change = 100.0 * (count.median as f64 / reference as f64 - 1.0);
                    write!(f, " {reference:>12} {change:>+7.1}%")?;
                }
                None => write!(f, " {:>12} {:>8}", "none", "")?,
            }
            let changed = if self.is_alike(name, count) {
                ""
            } else {
                "  CHANGED"
            };
            writeln!(f, "  {name}{changed}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_differ_by_three_percent() {
        let path = std::env::temp_dir().join(format!("evergreen-stages-{}", std::process::id()));
        let figures = |count| {
            let mut figures = Figures::default();
            figures.add("ADD: a stage".to_owned(), vec![count + 1, count, count - 1]);
            figures
        };
        figures(1_000_000).write(&path).unwrap();
        for (count, alike) in [
            (1_000_000, true),
            (1_029_000, true),
            (1_031_000, false),
            (969_000, false),
        ] {
            assert_eq!(
                figures(count).compare(&path).unwrap().are_alike(),
                alike,
                "{count}"
            );
        }
        assert!(!Figures::default().compare(&path).unwrap().are_alike());
        fs::remove_file(path).unwrap();
    }
}
