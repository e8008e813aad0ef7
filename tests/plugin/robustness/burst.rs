//! A restarted node starts all its pods at once.

use std::{
    sync::{Barrier, OnceLock},
    thread,
    time::{Duration, Instant},
};

use crate::node::{Node, call, report};
use evergreen_test_support::{netns::Namespace, run::CniCall};

const PODS: usize = 100;
/// The default deadline of a call (`netconf::DEFAULT_DEADLINE`).
const DEADLINE: Duration = Duration::from_secs(10);

/// Starts all calls at the same moment and returns how long each took, ascending.
fn at_once(calls: &[CniCall]) -> Vec<Duration> {
    let ready = Barrier::new(calls.len());
    let moment = OnceLock::new();
    let timed = |call: &CniCall| {
        ready.wait();
        let start = moment.get_or_init(Instant::now);
        call.succeed()
            .unwrap_or_else(|e| panic!("after {:?}: {e:#}", start.elapsed()));
        start.elapsed()
    };
    let mut took: Vec<Duration> = thread::scope(|scope| {
        let timed = &timed;
        let threads: Vec<_> = calls
            .iter()
            .map(|call| scope.spawn(move || timed(call)))
            .collect();
        let took = threads.into_iter().map(thread::ScopedJoinHandle::join);
        took.map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    took.sort_unstable();
    took
}

#[test]
fn hundred_concurrent_pods_meet_the_deadline() {
    let node = Node::new();
    let netconf = node.netconf(&["10.1.0.5/24", "fd00::5/64"]);
    let sandboxes: Vec<Namespace> = (0..PODS).map(|_| Namespace::new()).collect();
    let calls = |verb: &str| -> Vec<CniCall> {
        sandboxes
            .iter()
            .map(|sandbox| call(verb, sandbox, &netconf))
            .collect()
    };
    for verb in ["ADD", "DEL"] {
        let took = at_once(&calls(verb));
        let (middle, slowest) = (took[PODS / 2], took[PODS - 1]);
        report(&format!(
            "burst: {PODS} calls of {verb} at once on {} processors: half in {} ms, the slowest in {} ms",
            thread::available_parallelism().unwrap(),
            middle.as_millis(),
            slowest.as_millis()
        ));
        assert!(slowest < DEADLINE, "{verb}: {took:?}");
        let rules: Vec<String> = sandboxes.iter().map(Namespace::nft_list).collect();
        assert!(
            rules.iter().all(|found| *found == rules[0]),
            "{verb}: the rules differ between pods"
        );
        assert_eq!(
            rules[0].contains("table ip evergreen_cni"),
            verb == "ADD",
            "{}",
            rules[0]
        );
    }
    // ADD sends one request for each pod, DEL none.
    let asked = node.api.requests();
    assert!(asked.iter().all(|request| request.status == 200), "{asked:?}");
    assert_eq!(asked.len(), PODS);
}
