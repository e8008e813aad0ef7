//! `scripts/bench --scale`: many pods of one node at once, and many nodes in front of one API server.
//!
//! The first is run: 200 namespaces, as after a restart of the node. The second is computed from what one call and one
//! token were measured or are written to do: 5,000 nodes for thirty days, second by second.

use std::fmt;

use anyhow::{Context, Result, ensure};
use evergreen_test_support::netns::Namespace;

use crate::{
    measure::{self, Taken},
    stage::{Program, Stage},
};

/// Pods that a restarted node makes anew at once. Kubernetes' own limit is 110 a node; large ones are set to 250.
const PODS: usize = 200;
const NODES: usize = 5_000;
/// Pods that are made anew each second in the whole cluster. Kubernetes' scheduler is tested to 100 a second with 5,000
/// nodes.
const PODS_A_SECOND: f64 = 100.0;
/// Life of a token in seconds, as the chart asks for it.
const LIFE: f64 = 86_400.0;
/// All installers are started within so many seconds: the worst, since their tokens then begin together.
const ROLLOUT: f64 = 600.0;
const DAYS: usize = 30;
/// Seconds between two SelfSubjectReviews of one installer (`REVIEW_EVERY` in installer/src/keeper/work.rs).
const REVIEW_EVERY: f64 = 30.0;

/// What came of both.
pub struct Scale {
    add: Taken,
    check: Taken,
    tokens: Tokens,
}

/// TokenRequests of all nodes.
#[derive(Debug, PartialEq)]
struct Tokens {
    /// A second, over the whole time.
    mean: f64,
    /// In the worst second of the rollout.
    rollout: usize,
    /// In the worst second of each later day: the second, the third and the last.
    later: [usize; 3],
}

/// Runs the one and computes the other.
pub fn run(stage: &Stage) -> Result<Scale> {
    let namespaces: Vec<Namespace> = (0..PODS).map(|_| Namespace::new()).collect();
    let calls = |verb: &str| {
        let call = |netns| stage.call(Program::Ours, verb, netns).pod("shop", "meshed");
        namespaces.iter().map(call).collect::<Vec<_>>()
    };
    stage.api.clear_requests();
    let mut add = measure::time_at_once(&calls("ADD"), stage.binary(Program::Ours), stage).context("ADD")?;
    add.requests = stage.api.requests().len();
    ensure!(
        add.requests == PODS,
        "{} requests for {PODS} pods: each is to ask once",
        add.requests
    );
    // Reads every rule of every namespace back.
    let check =
        measure::time_at_once(&calls("CHECK"), stage.binary(Program::Ours), stage).context("CHECK")?;
    Ok(Scale {
        add,
        check,
        tokens: tokens(NODES, LIFE, ROLLOUT, DAYS),
    })
}

/// When tokens are asked for: at a node's start and then each time after half to two thirds of a token's life, at random
/// (`renewal` in installer/src/token.rs).
fn tokens(nodes: usize, life: f64, rollout: f64, days: usize) -> Tokens {
    const DAY: usize = 86_400;
    let end = days * DAY;
    let mut seconds = vec![0_usize; end];
    // Numbers that are spread evenly and are the same in each run (Knuth's multiplier).
    let mut state: u64 = 1;
    let mut chance = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f64 / (1 << 24) as f64
    };
    for _ in 0..nodes {
        let mut at = chance() * rollout;
        while let Some(second) = seconds.get_mut(at as usize) {
            *second += 1;
            at += life * (0.5 + chance() / 6.0);
        }
    }
    let worst = |from: usize, to: usize| seconds.get(from..to).into_iter().flatten().copied().max();
    let of_day = |day: usize| worst(day * DAY, (day + 1) * DAY).unwrap_or_default();
    Tokens {
        mean: seconds.iter().sum::<usize>() as f64 / end as f64,
        rollout: worst(0, rollout as usize).unwrap_or_default(),
        later: [of_day(1), of_day(2), of_day(days - 1)],
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |taken: &Taken| taken.wall / 1000.0;
        let each = |taken: &Taken| taken.cpu / 1000.0 / PODS as f64;
        writeln!(f, "one node, {PODS} meshed pods at once, on this machine")?;
        writeln!(
            f,
            "  ADD    all right, the last one after {:.0} ms; {:.2} ms of CPU and {:.1} MiB each, {} requests",
            ms(&self.add),
            each(&self.add),
            self.add.peak / 1024.0 / PODS as f64,
            self.add.requests
        )?;
        writeln!(
            f,
            "  CHECK  all right, the last one after {:.0} ms: every rule is there",
            ms(&self.check)
        )?;
        let Tokens { mean, rollout, later } = &self.tokens;
        writeln!(f, "{NODES} nodes, computed for {DAYS} days")?;
        writeln!(
            f,
            "  TokenRequests: {mean:.3} a second, {rollout} in the worst second of a rollout within {ROLLOUT} s, \
             {} / {} / {} in the worst second of day 2, day 3 and day {DAYS}",
            later[0], later[1], later[2]
        )?;
        let reviews = NODES as f64 / REVIEW_EVERY;
        writeln!(
            f,
            "  SelfSubjectReviews: {reviews:.0} a second, one each {REVIEW_EVERY} s for each node"
        )?;
        writeln!(
            f,
            "  GET of a pod: {PODS_A_SECOND} a second at {PODS_A_SECOND} new pods a second when all are meshed, from the \
             watch cache; none for other pods where the runtime passes annotations"
        )?;
        let storm = NODES / 20;
        writeln!(
            f,
            "  {storm} nodes (5 %) restarted at once, {PODS} pods each: {} requests",
            storm * PODS
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_pulls_nodes_apart_that_began_together() {
        let tokens = tokens(NODES, LIFE, ROLLOUT, DAYS);
        // A token is asked for every 7/12 of a day: 5,000 nodes make about a tenth a second.
        let expected = NODES as f64 / (LIFE * 7.0 / 12.0);
        assert!((tokens.mean / expected - 1.0).abs() < 0.03, "{tokens:?}");
        assert!(tokens.rollout > 4 * tokens.later[2], "{tokens:?}");
    }
}
