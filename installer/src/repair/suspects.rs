//! Which of the sandboxes made without us the API server is to be asked about. Pure.
//!
//! Most are of pods that want no rules: they are asked about once, and again after a while, since a watch cache may be
//! behind. So a node where all is well asks about none.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::{Duration, Instant},
};

/// How long an answer holds.
const ANSWER_HOLDS: Duration = Duration::from_secs(300);

/// Sandboxes made without us, from look to look.
#[derive(Debug)]
pub struct Suspects {
    /// Those of the look before: one look alone may meet a record half replaced.
    before: BTreeSet<String>,
    /// Those whose pods want nothing.
    settled: BTreeSet<String>,
    since: Instant,
    in_doubt: bool,
}

impl Suspects {
    /// None yet.
    pub fn new(now: Instant) -> Self {
        Self {
            before: BTreeSet::new(),
            settled: BTreeSet::new(),
            since: now,
            in_doubt: false,
        }
    }

    /// Takes what a look has found, sandboxes and what the kubelet calls their pods by; returns those to be asked about.
    pub fn ask_about(&mut self, found: BTreeMap<String, String>, now: Instant) -> BTreeMap<String, String> {
        if now.duration_since(self.since) >= ANSWER_HOLDS {
            self.settled.clear();
            self.since = now;
        }
        self.settled.retain(|sandbox| found.contains_key(sandbox));
        let before = mem::replace(&mut self.before, found.keys().cloned().collect());
        let open = found
            .into_iter()
            .filter(|(sandbox, _)| !self.settled.contains(sandbox));
        let (sure, doubtful): (BTreeMap<_, _>, BTreeMap<_, _>) =
            open.partition(|(sandbox, _)| before.contains(sandbox));
        self.in_doubt = !doubtful.is_empty();
        sure
    }

    /// True when the next look is to be soon.
    pub fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Notes that a sandbox's pod wants nothing.
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
    fn two_looks_have_to_agree() {
        let now = Instant::now();
        let mut suspects = Suspects::new(now);
        assert!(suspects.ask_about(found(&["a"]), now).is_empty() && suspects.in_doubt());
        assert_eq!(suspects.ask_about(found(&["a", "b"]), now), found(&["a"]));
        assert!(suspects.ask_about(found(&[]), now).is_empty() && !suspects.in_doubt());
        assert!(
            suspects.ask_about(found(&["a"]), now).is_empty(),
            "it was gone in between"
        );
    }

    #[test]
    fn one_that_wants_nothing_is_asked_about_again_after_a_while() {
        let now = Instant::now();
        let mut suspects = Suspects::new(now);
        suspects.ask_about(found(&["a"]), now);
        suspects.settle("a");
        assert!(suspects.ask_about(found(&["a"]), now).is_empty() && !suspects.in_doubt());
        assert_eq!(
            suspects.ask_about(found(&["a"]), now + ANSWER_HOLDS),
            found(&["a"])
        );
    }
}
