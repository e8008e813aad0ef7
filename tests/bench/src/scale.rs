//! `scripts/bench --scale`: many pods of one node at once, and many nodes in front of one API server.
//!
//! The first is measured: 200 namespaces, as after a node restart. The second is computed from the renewal rules of the
//! code: 5,000 nodes for thirty days, second by second.

use std::fmt;

use anyhow::{Context, Result, ensure};
use evergreen_test_support::netns::Namespace;

use crate::{
    measure::{self, Taken},
    stage::{Program, Stage},
};

/// Pods that a restarted node starts at once. The default limit is 110 a node; large nodes use 250.
const PODS: usize = 200;
const NODES: usize = 5_000;
/// Pods created each second in the whole cluster. Kubernetes tests its scheduler with 100 a second on 5,000 nodes.
const PODS_A_SECOND: f64 = 100.0;
/// Lifetime of a token in seconds, as the chart requests it.
const LIFE: f64 = 86_400.0;
/// Seconds in which all installers start. A short rollout is the worst case, because all tokens then expire together.
const ROLLOUT: f64 = 600.0;
const DAYS: usize = 30;
/// Seconds between SelfSubjectReviews of one installer (the installer's `REVIEW_EVERY`).
const REVIEW_EVERY: f64 = 30.0;

/// The results of both parts.
pub struct Scale {
    add: Taken,
    check: Taken,
    tokens: Tokens,
}

/// TokenRequests from all nodes.
#[derive(Debug, PartialEq)]
struct Tokens {
    /// Mean per second over the whole time.
    mean: f64,
    /// In the worst second of the rollout.
    rollout: usize,
    /// In the worst second of each later day: the second, the third and the last.
    later: [usize; 3],
}

/// Measures one node and computes the cluster.
pub fn run(stage: &Stage) -> Result<Scale> {
    let namespaces: Vec<Namespace> = (0..PODS).map(|_| Namespace::new()).collect();
    let calls = |verb: &str| {
        let call = |netns| stage.call(Program::Plugin, verb, netns).pod("shop", "meshed");
        namespaces.iter().map(call).collect::<Vec<_>>()
    };
    stage.api.clear_requests();
    let mut add =
        measure::time_at_once(&calls("ADD"), stage.binary(Program::Plugin), stage).context("ADD")?;
    add.requests = stage.api.requests().len();
    ensure!(
        add.requests == PODS,
        "{} requests for {PODS} pods, expected one each",
        add.requests
    );
    // CHECK reads back every rule of every namespace.
    let check =
        measure::time_at_once(&calls("CHECK"), stage.binary(Program::Plugin), stage).context("CHECK")?;
    Ok(Scale {
        add,
        check,
        tokens: tokens(NODES, LIFE, ROLLOUT, DAYS),
    })
}

/// Simulates token requests: one at each node's start, then one after a random half to two thirds of the token's lifetime
/// (`renewal` in the installer's token.rs).
fn tokens(nodes: usize, life: f64, rollout: f64, days: usize) -> Tokens {
    const DAY: usize = 86_400;
    let end = days * DAY;
    let mut seconds = vec![0_usize; end];
    // Uniform pseudo-random numbers, the same in every run (Knuth's multiplier).
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
            "  ADD    all succeeded, the last after {:.0} ms; {:.2} ms of CPU and {:.1} MiB each, {} requests",
            ms(&self.add),
            each(&self.add),
            self.add.peak / 1024.0 / PODS as f64,
            self.add.requests
        )?;
        writeln!(
            f,
            "  CHECK  all succeeded, the last after {:.0} ms: every rule is present",
            ms(&self.check)
        )?;
        let Tokens { mean, rollout, later } = &self.tokens;
        writeln!(f, "{NODES} nodes, computed for {DAYS} days")?;
        writeln!(
            f,
            "  TokenRequests: {mean:.3} a second, {rollout} in the worst second of a {ROLLOUT} s rollout, \
             {} / {} / {} in the worst second of day 2, day 3 and day {DAYS}",
            later[0], later[1], later[2]
        )?;
        let reviews = NODES as f64 / REVIEW_EVERY;
        writeln!(
            f,
            "  SelfSubjectReviews: {reviews:.0} a second, one every {REVIEW_EVERY} s from each node"
        )?;
        writeln!(
            f,
            "  GET pod: {PODS_A_SECOND} a second for {PODS_A_SECOND} new meshed pods a second, served by the watch cache; \
             none for unmeshed pods if the runtime passes annotations"
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
    fn random_renewal_spreads_nodes_after_a_rollout() {
        let tokens = tokens(NODES, LIFE, ROLLOUT, DAYS);
        // A token is renewed every 7/12 of a day on average: about a tenth of a request a second for 5,000 nodes.
        let expected = NODES as f64 / (LIFE * 7.0 / 12.0);
        assert!((tokens.mean / expected - 1.0).abs() < 0.03, "{tokens:?}");
        assert!(tokens.rollout > 4 * tokens.later[2], "{tokens:?}");
    }
}
