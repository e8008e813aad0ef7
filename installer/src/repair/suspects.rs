//! Which of the sandboxes without our entry the API server has to be asked about. Pure.
//!
//! Most belong to pods that need no rules. Those are looked up once, and again after a while since the API server's watch
//! cache may be stale. A healthy node makes no such request.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::{Duration, Instant},
};

/// How long a sandbox stays settled.
const SETTLED_FOR: Duration = Duration::from_secs(300);

/// Sandboxes created without our entry, from pass to pass.
#[derive(Debug)]
pub struct Suspects {
    /// Those of the previous pass: a single pass may see a record while it is replaced.
    before: BTreeSet<String>,
    /// Those whose pods need no rules.
    settled: BTreeSet<String>,
    since: Instant,
    unconfirmed: bool,
}

impl Suspects {
    /// Creates an empty set.
    pub fn new(now: Instant) -> Self {
        Self {
            before: BTreeSet::new(),
            settled: BTreeSet::new(),
            since: now,
            unconfirmed: false,
        }
    }

    /// Takes the sandboxes of a pass, with the kubelet's UIDs of their pods. Returns those to look up: confirmed by two passes
    /// and not settled.
    pub fn unsettled(&mut self, found: BTreeMap<String, String>, now: Instant) -> BTreeMap<String, String> {
        if now.duration_since(self.since) >= SETTLED_FOR {
            self.settled.clear();
            self.since = now;
        }
        self.settled.retain(|sandbox| found.contains_key(sandbox));
        let before = mem::replace(&mut self.before, found.keys().cloned().collect());
        let open = found
            .into_iter()
            .filter(|(sandbox, _)| !self.settled.contains(sandbox));
        let (confirmed, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
            open.partition(|(sandbox, _)| before.contains(sandbox));
        self.unconfirmed = !new.is_empty();
        confirmed
    }

    /// Returns true if a sandbox needs a second pass to confirm it.
    pub fn are_unconfirmed(&self) -> bool {
        self.unconfirmed
    }

    /// Notes that the pod of a sandbox needs no rules.
    pub fn settle(&mut self, sandbox: &str) {
        self.settled.insert(sandbox.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sandboxes: &[&str]) -> BTreeMap<String, String> {
        let pairs = sandboxes.iter().map(|s| ((*s).to_owned(), format!("uid-{s}")));
        pairs.collect()
    }

    #[test]
    fn two_passes_must_agree() {
        let now = Instant::now();
        let mut suspects = Suspects::new(now);
        assert!(suspects.unsettled(found(&["a"]), now).is_empty() && suspects.are_unconfirmed());
        assert_eq!(suspects.unsettled(found(&["a", "b"]), now), found(&["a"]));
        assert!(suspects.unsettled(found(&[]), now).is_empty() && !suspects.are_unconfirmed());
        assert!(
            suspects.unsettled(found(&["a"]), now).is_empty(),
            "it was absent in between"
        );
    }

    #[test]
    fn settled_sandbox_is_looked_up_again_later() {
        let now = Instant::now();
        let mut suspects = Suspects::new(now);
        suspects.unsettled(found(&["a"]), now);
        suspects.settle("a");
        assert!(suspects.unsettled(found(&["a"]), now).is_empty() && !suspects.are_unconfirmed());
        assert_eq!(
            suspects.unsettled(found(&["a"]), now + SETTLED_FOR),
            found(&["a"])
        );
    }
}
