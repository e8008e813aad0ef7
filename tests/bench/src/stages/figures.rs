//! Counts by name: as they were kept, as they are now, and how far that is apart.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context, Result};

/// More than so much apart is a change and not chance.
const TOLERANCE: f64 = 0.03;
/// So many instructions are nothing, whatever part of a small stage they are.
const NOTHING: u64 = 3_000;
const HEAD: &str =
    "# Instructions, as `scripts/bench --stages --write` has counted them. `--check` compares.\n";

/// Counts, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Figures(Vec<(String, Count)>);

#[derive(Debug, PartialEq, Eq)]
struct Count {
    median: u64,
    /// Between the smallest and the largest run.
    spread: u64,
}

/// Counts beside the ones that were kept.
pub struct Compared<'a> {
    now: &'a Figures,
    kept: BTreeMap<String, u64>,
}

impl Figures {
    /// What several runs have counted.
    pub fn add(&mut self, name: String, mut counts: Vec<u64>) {
        counts.sort_unstable();
        if let (Some(least), Some(most)) = (counts.first(), counts.last()) {
            let (median, spread) = (counts[counts.len() / 2], most - least);
            self.0.push((name, Count { median, spread }));
        }
    }

    /// Keeps them.
    pub fn write(&self, path: &Path) -> Result<()> {
        let lines = self
            .0
            .iter()
            .map(|(name, count)| format!("{} {name}\n", count.median));
        let text: String = [HEAD.to_owned()].into_iter().chain(lines).collect();
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Puts them beside those that were kept.
    pub fn compare(&self, path: &Path) -> Result<Compared<'_>> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let mut kept = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (count, name) = line.split_once(' ').context("a line is COUNT NAME")?;
            kept.insert(name.to_owned(), count.parse()?);
        }
        Ok(Compared { now: self, kept })
    }
}

impl Compared<'_> {
    /// True when every count is what it was, and there are no others.
    pub fn are_alike(&self) -> bool {
        self.now.0.len() == self.kept.len()
            && self.now.0.iter().all(|(name, count)| self.is_alike(name, count))
    }

    fn is_alike(&self, name: &str, count: &Count) -> bool {
        self.kept.get(name).is_some_and(|&kept| {
            let apart = kept.abs_diff(count.median);
            apart <= NOTHING || apart as f64 <= kept as f64 * TOLERANCE
        })
    }
}

impl fmt::Display for Compared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>12} {:>8} {:>12} {:>8}  stage",
            "instructions", "spread", "kept", "change"
        )?;
        for (name, count) in &self.now.0 {
            write!(f, "{:>12} {:>8}", count.median, count.spread)?;
            match self.kept.get(name) {
                Some(&kept) => {
                    let change = 100.0 * (count.median as f64 / kept as f64 - 1.0);
                    write!(f, " {kept:>12} {change:>+7.1}%")?;
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
    fn what_was_kept_is_alike_until_it_is_three_percent_apart() {
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
