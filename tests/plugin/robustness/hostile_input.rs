//! Hostile netconfs, pods and runtimes, each with its expected outcome.

mod pods_and_runtimes;

use std::time::{Duration, Instant};

use evergreen_test_support::{budget::within, netns::Namespace, run::CniCall};
use serde_json::{Value, json};

use crate::node::{Node, call, pod};

/// A node, a sandbox on it, and the netconf from the runtime.
struct Sandbox {
    node: Node,
    namespace: Namespace,
    netconf: Value,
}

impl Sandbox {
    fn new() -> Self {
        let node = Node::new();
        let netconf = node.netconf(&["192.0.2.2/24", "fd77::2/64"]);
        Self {
            node,
            namespace: Namespace::new(),
            netconf,
        }
    }

    /// Changes the meshed pod at the API server.
    fn change_pod(&self, change: impl FnOnce(&mut Value)) {
        let mut meshed = pod("meshed");
        change(&mut meshed);
        self.node.api.put_pod("shop", "web-0", meshed);
    }

    fn call(&self, verb: &str) -> CniCall {
        call(verb, &self.namespace, &self.netconf)
    }

    /// Asserts a failure that changes no rules, and returns its code and message.
    #[track_caller]
    fn refused(&self, call: &CniCall) -> (u64, String) {
        let error = call.fail().unwrap();
        assert_eq!(self.namespace.nft_list(), "", "{error}");
        let message = error["msg"].as_str().unwrap().to_owned();
        assert!(message.len() < 1000, "the message is too long: {message}");
        (error["code"].as_u64().unwrap(), message)
    }

    /// Asserts that ADD, CHECK, a second ADD and DEL succeed within ten seconds each, and returns the rules.
    #[track_caller]
    fn works(&self) -> String {
        let timed = |verb: &str| {
            let start = Instant::now();
            self.call(verb)
                .succeed()
                .unwrap_or_else(|e| panic!("{verb}: {:.2000}", format!("{e:#}")));
            assert!(
                start.elapsed() < within(Duration::from_secs(10)),
                "{verb}: {:?}",
                start.elapsed()
            );
        };
        timed("ADD");
        let rules = self.namespace.nft_list();
        timed("CHECK");
        timed("ADD");
        assert!(
            self.namespace.nft_list() == rules,
            "a second ADD changed the rules"
        );
        timed("DEL");
        assert_eq!(self.namespace.nft_list(), "");
        rules
    }
}

// === entries ===

const PORTS: [&str; 10] = [
    "0",
    "65536",
    "80-",
    "-80",
    "90-80",
    "8 0",
    "http",
    "80-90-100",
    "+80",
    "1e3",
];
const SUBNETS: [&str; 7] = [
    "10.0.0.0/33",
    "10.0.0/8",
    "10.0.0.0/-1",
    "fd00::/129",
    "all",
    "10.0.0.0/8/8",
    "::ffff:10.0.0.0/33x",
];
const USERS: [&str; 5] = ["-1", "4294967296", "4294967295", "proxy", "0x10"];

#[test]
fn invalid_entry_is_refused_with_source_and_key() {
    let keys = [
        ("inbound-ports-to-ignore", "skip-inbound-ports", &PORTS[..]),
        ("outbound-ports-to-ignore", "skip-outbound-ports", &PORTS),
        ("subnets-to-ignore", "skip-subnets", &SUBNETS),
        ("", "proxy-uid", &USERS),
        ("", "proxy-gid", &USERS),
    ];
    let mut sandbox = Sandbox::new();
    for (key, annotation, entries) in keys {
        let annotation = format!("config.linkerd.io/{annotation}");
        for entry in entries {
            if !key.is_empty() {
                let usual = sandbox.netconf.clone();
                sandbox.netconf["linkerd"][key] = json!(["", entry]);
                let (code, message) = sandbox.refused(&sandbox.call("ADD"));
                assert_eq!(code, 7, "{message}");
                for part in [format!("linkerd.{key}"), format!("{entry:?}")] {
                    assert!(message.contains(&part), "{part} in {message}");
                }
                sandbox.netconf = usual;
            }
            sandbox.change_pod(|pod| pod["metadata"]["annotations"][&annotation] = json!(entry));
            let on_pod = sandbox.refused(&sandbox.call("ADD"));
            sandbox.change_pod(|pod| {
                let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
                annotations.remove("linkerd.io/created-by");
                annotations.remove(&annotation);
            });
            sandbox
                .node
                .api
                .put_namespace("shop", json!({&annotation: entry}));
            let on_namespace = sandbox.refused(&sandbox.call("ADD"));
            for (source, (code, message)) in [("pod", on_pod), ("namespace", on_namespace)] {
                assert_eq!(code, 102, "{message}");
                let named = format!("pod shop/web-0: {source} annotation {annotation}: ");
                assert!(
                    message.starts_with(&named) && message.contains(entry),
                    "{message}"
                );
            }
        }
    }
}

#[test]
fn blanks_overlaps_and_host_bits_are_normalised() {
    let mut sandbox = Sandbox::new();
    sandbox.netconf["linkerd"] = json!({
        "ipv6": true,
        "inbound-ports-to-ignore": [" 25 ", "", "80-90", "85-100", "101", "25", "65535", "1"],
        "subnets-to-ignore": ["10.1.2.3/8", "::ffff:192.168.0.0/112", "fd00::1/8", " 10.0.0.0/9"],
    });
    let rules = sandbox.works();
    for wanted in [
        "{ 1, 25, 80-101,\n\t\t\t     4190-4191, 65535 }",
        "{ 10.0.0.0/8, 192.168.0.0/16 }",
        "{ fd00::/8 }",
    ] {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat(&rules).contains(&flat(wanted)), "{wanted} in\n{rules}");
    }
    sandbox.netconf["linkerd"]["subnets-to-ignore"] = json!(["0.0.0.0/0", "10.0.0.0/8", "::/0"]);
    let rules = sandbox.works();
    assert!(rules.contains("0.0.0.0/0") && rules.contains("::/0"), "{rules}");
}

// === size ===

#[test]
fn ten_thousand_ports_are_programmed() {
    let mut sandbox = Sandbox::new();
    let ports: Vec<String> = (0..10_000).map(|i| (2 * i + 1).to_string()).collect();
    let subnets: Vec<String> = (0..2500)
        .flat_map(|i| {
            [
                format!("10.{}.{}.0/24", i / 128, i % 128 * 2),
                format!("fd00:0:{:x}::/64", i * 2),
            ]
        })
        .collect();
    sandbox.netconf["linkerd"] = json!({
        "ipv6": true, "inbound-ports-to-ignore": ports, "outbound-ports-to-ignore": ports, "subnets-to-ignore": subnets,
    });
    sandbox.change_pod(|pod| {
        pod["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove("config.linkerd.io/skip-outbound-ports");
    });
    let rules = sandbox.works();
    assert!(
        rules.contains("19999") && rules.contains("10.19.134.0/24") && rules.contains("fd00:0:1386::/64")
    );
}

#[test]
fn largest_annotations_are_read() {
    let mut sandbox = Sandbox::new();
    // Kubernetes limits a pod's annotations to 256 KiB in total (TotalAnnotationSizeLimitB in k8s.io/apimachinery).
    let mut ports: String = (0..32_000).map(|i| format!("{},", 2 * i + 1)).collect();
    ports.pop();
    let filler = "x".repeat(250 * 1024 - ports.len());
    let all = json!({
        "config.linkerd.io/skip-outbound-ports": ports, "example.com/filler": filler,
        "linkerd.io/created-by": "linkerd/proxy-injector edge-26.8.1",
    });
    sandbox.change_pod(|pod| pod["metadata"]["annotations"] = all.clone());
    assert!(sandbox.works().contains("63999"));
    sandbox.netconf["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": all});
    sandbox.node.api.pause();
    sandbox.call("ADD").succeed().unwrap();
    assert!(
        sandbox.namespace.nft_list().contains("63999"),
        "the runtime's annotations were not used"
    );
}

#[test]
fn oversized_answer_is_refused() {
    let sandbox = Sandbox::new();
    let padded = |bytes: usize| {
        let env: Vec<Value> = (0..bytes / 1000)
            .map(|i| json!({"name": format!("E{i}"), "value": "v".repeat(970)}))
            .collect();
        move |pod: &mut Value| pod["spec"]["containers"][1]["env"] = json!(env)
    };
    sandbox.change_pod(padded(3 << 20));
    sandbox.works();
    sandbox.change_pod(padded(9 << 20));
    let (code, message) = sandbox.refused(&sandbox.call("ADD"));
    assert_eq!(code, 101, "{message}");
    assert!(message.contains("larger than 8 MiB"), "{message}");
}
