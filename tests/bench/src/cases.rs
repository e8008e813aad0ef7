//! The list of cases. The figures quoted for linkerd-cni are medians of 50 interleaved runs on two busy cores (AMD EPYC,
//! Linux 6.18) with iptables 1.8.9, built with Go 1.26 and Linkerd's own flags. Wall times are not quoted, because they
//! depend on how busy the machine is.

use anyhow::Result;
use evergreen_test_support::{netns::Namespace, run::CniCall};
use serde_json::{Value, json};

use crate::{
    case::Case,
    stage::{Program, Stage},
};

/// The minimal baseline of a call that needs no network: a process that does nothing.
const NOTHING: &str = "baseline: nothing";
/// The minimal baseline of a call with one API request.
const GET: &str = "baseline: one HTTPS GET";
/// The minimal baseline of ADD for a meshed pod.
const RULES: &str = "baseline: GET and rules";

/// All cases, the baselines first.
pub fn all() -> Vec<Case> {
    [
        baselines(),
        without_a_server(),
        with_a_server(),
        failing(),
        many(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn baselines() -> Vec<Case> {
    vec![
        Case::baseline(NOTHING, 0, |s, _, _| {
            CniCall::bare(&s.baseline).argument("nothing")
        }),
        Case::baseline(GET, 1, |s, _, _| baseline(s, "get")),
        Case::baseline(RULES, 1, |s, _, n| {
            baseline(s, "get+rules")
                .argument(n.path())
                .argument(s.file("batch"))
        }),
    ]
}

fn without_a_server() -> Vec<Case> {
    let annotations = |s: &Stage, p, n: &Namespace| {
        let netconf = s.netconf(json!({"kubernetes.io/config.source": "api"}));
        s.call(p, "ADD", n).pod("shop", "plain").netconf(&netconf)
    };
    vec![
        Case::new("VERSION", |s, p, n| s.call(p, "VERSION", n))
            .at_most(2.0, NOTHING)
            .of_peer(1.0 / 8.0)
            .quoted(7.6, 36.6),
        Case::new("STATUS", |s, p, n| s.call(p, "STATUS", n))
            .at_most(2.0, NOTHING)
            .of_peer(1.0 / 8.0)
            .quoted(7.7, 36.5),
        Case::new("DEL, unprogrammed", |s, p, n| s.call(p, "DEL", n))
            .at_most(2.0, NOTHING)
            .of_peer(1.0 / 8.0)
            .quoted(7.8, 36.5),
        // The kernel decides the wall time: it waits for packets in flight before it removes a chain.
        Case::new("DEL, programmed", |s, p, n| s.call(p, "DEL", n))
            .programmed()
            .of_peers_cpu(1.0 / 8.0, None)
            .quoted(7.8, 36.5),
        Case::new("ADD unmeshed, annotations", annotations)
            .at_most(2.0, NOTHING)
            .of_peer(1.0 / 12.0)
            .quoted(13.3, 38.0),
    ]
}

fn with_a_server() -> Vec<Case> {
    vec![
        Case::new("ADD unmeshed, API request", |s, p, n| add(s, p, n, "plain"))
            .asks(1)
            .at_most(1.5, GET)
            .quoted(13.4, 38.0),
        Case::new("ADD meshed", |s, p, n| add(s, p, n, "meshed"))
            .asks(1)
            .at_most(1.3, RULES)
            .of_peer(1.0 / 8.0)
            .quoted(48.3, 39.0),
        Case::new("ADD meshed, IPv4 and IPv6", |s, p, n| {
            add(s, p, n, "meshed").netconf(&s.netconf_of_two_families())
        })
        .asks(1)
        .of_peer(1.0 / 12.0)
        .quoted(79.5, 39.1),
        Case::new("ADD meshed, native sidecar", |s, p, n| add(s, p, n, "native"))
            .asks(1)
            .of_peer(1.0 / 8.0)
            .quoted(48.1, 39.0),
        Case::new("ADD, 80 ports, 10 subnets", |s, p, n| add(s, p, n, "many"))
            .asks(1)
            .of_peer(1.0 / 8.0)
            .quoted(82.2, 39.1),
        // The kernel decides the wall time, as for DEL.
        Case::new("ADD again", |s, p, n| add(s, p, n, "meshed"))
            .programmed()
            .asks(1)
            .of_peers_cpu(1.0 / 8.0, None)
            .quoted(45.9, 39.0),
        // linkerd-cni answers CHECK without reading the rules, so its time is not comparable.
        Case::new("CHECK, programmed", |s, p, n| {
            s.call(p, "CHECK", n).pod("shop", "meshed")
        })
        .programmed()
        .asks(1)
        .at_most(1.5, GET)
        .quoted(7.7, 36.6),
        Case::new("ADD meshed, +50 ms latency", |s, p, n| far(s, p, n, "far-50"))
            .asks(1)
            .of_peer(1.0 / 2.0)
            .quoted(49.5, 39.0),
        Case::new("ADD meshed, +200 ms latency", |s, p, n| far(s, p, n, "far-200"))
            .asks(1)
            .of_peers_cpu(1.0 / 8.0, Some(1.0 / 2.0))
            .quoted(50.0, 39.0),
    ]
}

fn failing() -> Vec<Case> {
    let refused = |s: &Stage, p, n: &Namespace| {
        let mut netconf = s.netconf(Value::Null);
        netconf["kubernetes"]["kubeconfig"] = json!(s.file("kubeconfig-refused"));
        // Evergreen retries until its deadline, 10 s by default.
        netconf["evergreen"] = json!({"deadline-seconds": 0.3});
        add(s, p, n, "meshed").netconf(&netconf)
    };
    vec![
        Case::new("ADD, 401", |s, p, n| {
            let mut netconf = s.netconf(Value::Null);
            netconf["kubernetes"]["kubeconfig"] = json!(s.file("kubeconfig-401"));
            add(s, p, n, "meshed").netconf(&netconf)
        })
        .asks(1)
        .fails()
        .of_peer(1.0 / 5.0)
        .quoted(10.3, 37.3),
        Case::new("ADD, refused for 0.3 s", refused)
            .fails()
            .of_peers_cpu(1.0 / 4.0, None)
            .quoted(9.3, 37.0),
    ]
}

fn many() -> Vec<Case> {
    vec![
        Case::new("ADD meshed, 30 at once", |s, p, n| add(s, p, n, "meshed"))
            .asks(30)
            .at_once(30, 3)
            .of_peer(1.0 / 8.0)
            .quoted(1635.0, 1168.0),
        Case::new("ADD meshed, 100 at once", |s, p, n| add(s, p, n, "meshed"))
            .asks(100)
            .at_once(100, 5)
            .of_peer(1.0 / 8.0)
            .quoted(5953.0, 3892.0),
    ]
}

fn add(stage: &Stage, program: Program, namespace: &Namespace, pod: &str) -> CniCall {
    stage.call(program, "ADD", namespace).pod("shop", pod)
}

fn far(stage: &Stage, program: Program, namespace: &Namespace, pod_namespace: &str) -> CniCall {
    stage.call(program, "ADD", namespace).pod(pod_namespace, "meshed")
}

fn baseline(stage: &Stage, job: &str) -> CniCall {
    CniCall::bare(&stage.baseline)
        .argument(job)
        .argument(stage.api.address().to_string())
        .argument(stage.file("ca.crt"))
        .argument(stage.file("token"))
        .argument("/api/v1/namespaces/shop/pods/meshed?resourceVersion=0")
}

/// Records the rules that ADD sends for a meshed pod, for the minimal baseline program to send.
pub fn record_batch(stage: &Stage) -> Result<()> {
    let namespace = Namespace::new();
    let call = add(stage, Program::Plugin, &namespace, "meshed");
    crate::trace::record_batch(&call, stage)
}
