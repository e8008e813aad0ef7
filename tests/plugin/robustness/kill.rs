//! ADD killed at each of its system calls leaves no rules or all of them, and later calls work.

use std::{thread, time::Duration};

use evergreen_test_support::{
    netns::Namespace,
    run::{CniCall, Kill},
};
use serde_json::json;

use crate::node::{Node, call, report};

/// The number of namespaces in use at once: the processors of the smallest supported machine.
const AT_ONCE: usize = 2;

/// A sandbox and the calls a runtime makes for it.
struct Sandbox<'a> {
    node: &'a Node,
    namespace: Namespace,
    /// The complete rules.
    rules: String,
    /// The number of system calls of an ADD.
    calls: usize,
}

impl<'a> Sandbox<'a> {
    /// A sandbox without rules, after one complete ADD and DEL.
    fn new(node: &'a Node) -> Self {
        let mut sandbox = Self {
            node,
            namespace: Namespace::new(),
            rules: String::new(),
            calls: 0,
        };
        let added = sandbox.call("ADD").run_until(Kill::Never).unwrap();
        assert_eq!(added.reply.exit_code, Some(0), "{added:?}");
        sandbox.calls = added.calls;
        sandbox.rules = sandbox.namespace.nft_list();
        assert!(
            sandbox.rules.contains("table ip6 evergreen_cni"),
            "{}",
            sandbox.rules
        );
        sandbox.call("DEL").succeed().unwrap();
        sandbox
    }

    fn call(&self, verb: &str) -> CniCall {
        self.call_skipping("4190-4191", verb)
    }

    /// A call with these inbound ports to ignore.
    fn call_skipping(&self, ports: &str, verb: &str) -> CniCall {
        let mut netconf = self.node.netconf(&["10.1.0.5/24", "fd00::5/64"]);
        netconf["linkerd"] =
            json!({"ipv6": true, "inbound-ports-to-ignore": [ports], "subnets-to-ignore": ["10.0.0.0/8"]});
        call(verb, &self.namespace, &netconf)
    }

    /// Runs an ADD and kills it. Returns true if ADD finished first. `before` are the rules before the call.
    fn add_killed(&self, kill: Kill, before: &str) -> bool {
        let killed = self.call("ADD").run_until(kill).unwrap();
        let over = killed.reply.exit_code.is_some();
        let found = self.namespace.nft_list();
        let whole = found == self.rules || (found == before && !over);
        assert!(
            whole,
            "{kill:?} left neither the complete rules nor the earlier ones: {killed:?}\n{found}"
        );
        over
    }

    /// Asserts that the following DEL and ADD work, and leaves the sandbox without rules.
    fn del_and_add_work(&self, after: Kill) {
        let wants = |verb: &str, rules: &str| {
            let call = self.call(verb);
            call.succeed()
                .unwrap_or_else(|e| panic!("{verb} after {after:?}: {e:#}"));
            assert_eq!(self.namespace.nft_list(), rules, "{verb} after {after:?}");
        };
        wants("DEL", "");
        wants("ADD", &self.rules);
        wants("DEL", "");
    }
}

/// Kills ADD at every system call, shared between threads, until ADD finishes first. Returns the number of kills.
fn at_every_call(
    kill: impl Fn(usize) -> Kill + Sync,
    survives: impl Fn(&Sandbox<'_>, Kill) -> bool + Sync,
) -> usize {
    let node = Node::new();
    let share = |first: usize| {
        let sandbox = Sandbox::new(&node);
        let moments = (first..).step_by(AT_ONCE);
        let killed = moments.take_while(|n| !survives(&sandbox, kill(*n))).count();
        // The number of calls varies by a few, because reads from the network are split differently.
        let met = killed * AT_ONCE;
        assert!(
            met + 20 > sandbox.calls,
            "ADD was killed at only {met} of {} calls",
            sandbox.calls
        );
        killed
    };
    thread::scope(|scope| {
        let share = &share;
        let shares: Vec<_> = (1..=AT_ONCE)
            .map(|first| scope.spawn(move || share(first)))
            .collect();
        let killed = shares.into_iter().map(thread::ScopedJoinHandle::join);
        killed
            .map(|n| n.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum()
    })
}

#[test]
fn kill_before_any_syscall_leaves_no_half() {
    let points = at_every_call(Kill::Before, |sandbox, kill| {
        let over = sandbox.add_killed(kill, "");
        sandbox.del_and_add_work(kill);
        over
    });
    report(&format!(
        "kill: before each of {points} system calls of ADD, none or all of its rules remained"
    ));
}

#[test]
fn kill_during_any_syscall_leaves_no_half() {
    // Between 0 and 0.4 ms into the call: the kernel takes about 0.1 ms for the rules.
    let during = |n| Kill::During(n, Duration::from_micros(n as u64 * 97 % 400));
    let points = at_every_call(during, |sandbox, kill| {
        let over = sandbox.add_killed(kill, "");
        sandbox.del_and_add_work(kill);
        over
    });
    report(&format!(
        "kill: during each of {points} system calls of ADD, none or all of its rules remained"
    ));
}

#[test]
fn kill_during_replacement_leaves_old_or_new() {
    let points = at_every_call(Kill::Before, |sandbox, kill| {
        sandbox.call_skipping("7000-7999", "ADD").succeed().unwrap();
        let before = sandbox.namespace.nft_list();
        assert_ne!(before, sandbox.rules);
        let over = sandbox.add_killed(kill, &before);
        sandbox.call("DEL").succeed().unwrap();
        over
    });
    report(&format!(
        "kill: before each of {points} system calls of an ADD over older rules, the old or the new ones remained"
    ));
}
