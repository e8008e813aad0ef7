//! Any input gets one CNI document in time: thousands of variants of valid input in each run. For hours of others:
//! `FUZZ_ROUNDS=1000000 FUZZ_SEED=7 cargo test -p evergreen-cni --test plugin fuzz`.

mod mutation;
mod previous;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    panic::catch_unwind,
    time::{Duration, Instant},
};

use evergreen_kube::pod::read_pod;
use evergreen_test_support::{
    api::Answer,
    budget::within,
    netns::Namespace,
    run::{CniCall, CniReply},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};

use self::mutation::{distorted, rounds, seed};
use crate::{
    node::{Node, PLUGIN, POD, pod, report},
    robustness::damaged_files::{Numbers, variant},
};

/// Longer than the longest deadline a configuration may set (120 s).
const TIMEOUT: Duration = Duration::from_secs(130);
const VERBS: [&str; 6] = ["ADD", "ADD", "ADD", "CHECK", "DEL", "STATUS"];
const ARGS: &str = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=4f1c;K8S_POD_INFRA_CONTAINER_ID=c1";

/// A namespace for the rules, and an isolated one for the plugin to run in, because a damaged kubeconfig may name any
/// server.
struct Cell {
    pod: Namespace,
    own: Namespace,
}

impl Cell {
    fn new() -> Self {
        Self {
            pod: Namespace::new(),
            own: Namespace::new(),
        }
    }

    fn call(&self, verb: &str, stdin: impl Into<Vec<u8>>) -> CniCall {
        CniCall::new(PLUGIN, verb, self.pod.path())
            .env("CNI_ARGS", ARGS)
            .stdin(stdin)
    }

    /// Runs a call in the isolated namespace. Panics with everything needed to repeat it if the answer violates the
    /// protocol.
    fn run(&self, call: &CniCall) {
        self.own.run(|| assert_answered(call));
    }
}

/// Asserts that the answer comes in time and is a result, an error object, or empty where the command has no result.
#[track_caller]
fn assert_answered(call: &CniCall) {
    let start = Instant::now();
    let reply = call.run().unwrap_or_else(|e| panic!("{e:#}"));
    let late = start.elapsed() > within(TIMEOUT);
    let again = format!("{:.4000}", call.to_string());
    assert!(!late, "{:?} for {again}", start.elapsed());
    is_cni(&reply).unwrap_or_else(|why| panic!("{why}: {reply:?} of {again}"));
}

fn is_cni(reply: &CniReply) -> Result<(), String> {
    if reply.exit_code == Some(0) && reply.stdout.is_empty() {
        return Ok(());
    }
    // Parsed field by field: a passed-through result may be nested deeper than serde_json's recursion limit.
    let fields: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(&reply.stdout).map_err(|e| format!("not one object: {e}"))?;
    let version = field::<String>(&fields, "cniVersion").unwrap_or_default();
    let (code, message) = (field::<u64>(&fields, "code"), field::<String>(&fields, "msg"));
    match (reply.exit_code, code, message) {
        _ if version.is_empty() => Err("no version".into()),
        (Some(0), None, _) => Ok(()),
        // 999 is an internal error, such as a panic.
        (Some(1), Some(code), Some(_)) if code != 999 => Ok(()),
        _ => Err("neither a result nor an error".into()),
    }
}

fn field<T: DeserializeOwned>(fields: &BTreeMap<String, Box<RawValue>>, key: &str) -> Option<T> {
    serde_json::from_str(fields.get(key)?.get()).ok()
}

/// Returns a variant that can be an environment variable.
fn text_variant(text: &str, numbers: &mut Numbers) -> OsString {
    let mut bytes = variant(text.as_bytes(), numbers);
    bytes.retain(|byte| *byte != 0);
    OsString::from_vec(bytes)
}

fn netconf(node: &Node) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "net", "type": "evergreen-cni", "log_level": "info",
        "kubernetes": {"kubeconfig": node.path("kubeconfig"), "k8s_api_root": "x"},
        "linkerd": {"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102, "proxy-gid": 2102,
            "ports-to-redirect": [80, 443], "inbound-ports-to-ignore": ["4190", "1000-2000"],
            "outbound-ports-to-ignore": ["25"], "subnets-to-ignore": ["10.0.0.0/8", "fd00::/8"],
            "simulate": false, "use-wait-flag": false, "iptables-mode": "nft", "ipv6": true},
        "evergreen": {"exempt-namespaces": ["kube-system"], "on-api-failure": "annotations", "ask-api": "when-needed",
            "deadline-seconds": 0.1},
        "capabilities": {"io.kubernetes.cri.pod-annotations": true},
        "runtimeConfig": {"io.kubernetes.cri.pod-annotations": {
            "linkerd.io/proxy-version": "edge", "config.linkerd.io/skip-outbound-ports": "25,3306",
            "config.linkerd.io/skip-subnets": "10.0.0.0/8", "config.linkerd.io/proxy-uid": "2102"}},
        "prevResult": {"cniVersion": "1.0.0",
            "interfaces": [{"name": "eth0", "mac": "0a:58:0a:01:00:05", "sandbox": "/run/netns/x"}],
            "ips": [{"address": "10.1.0.5/24", "gateway": "10.1.0.1", "interface": 0}, {"address": "fd00::5/64"}],
            "routes": [{"dst": "0.0.0.0/0"}], "dns": {}}
    })
}

/// Reports how many variants ran.
fn say(count: usize, what: &str) {
    report(&format!("fuzz: {count} {what} (seed {})", seed()));
}

#[test]
fn any_stdin_gets_one_document() {
    // The cell cannot reach the API server, so the input alone decides.
    let (node, cell, mut numbers) = (Node::new(), Cell::new(), Numbers(seed()));
    let good = netconf(&node);
    for round in 0..rounds() {
        let stdin = match round % 3 {
            0 => variant(good.to_string().as_bytes(), &mut numbers),
            1 => distorted(&good, &mut numbers).to_string().into_bytes(),
            _ => variant(
                distorted(&good, &mut numbers).to_string().as_bytes(),
                &mut numbers,
            ),
        };
        cell.run(&cell.call(VERBS[numbers.below(VERBS.len())], stdin));
    }
    for deep in [
        "[",
        "{\"a\":",
        "{\"name\":\"n\",\"prevResult\":{\"x\":[",
        "{\"name\":\"n\",\"x\":[",
    ] {
        cell.run(&cell.call("ADD", deep.repeat(200_000)));
    }
    say(
        rounds() + 4,
        "variants of stdin, each answered according to the protocol",
    );
}

#[test]
fn any_environment_gets_one_document() {
    let (node, cell, mut numbers) = (Node::new(), Cell::new(), Numbers(seed() + 1));
    let stdin = netconf(&node).to_string();
    for _ in 0..rounds() {
        let verb = VERBS[numbers.below(VERBS.len())];
        let mut call = cell
            .call(verb, stdin.as_str())
            .env("CNI_ARGS", text_variant(ARGS, &mut numbers));
        // Sometimes changes another variable, never the namespace, which must stay the test's own.
        for (name, usual) in [
            ("CNI_COMMAND", verb),
            ("CNI_CONTAINERID", "c-1.a_b"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/x"),
        ] {
            match numbers.below(20) {
                0 => call = call.without(name),
                1 | 2 => call = call.env(name, text_variant(usual, &mut numbers)),
                _ => {}
            }
        }
        cell.run(&call);
    }
    say(
        rounds(),
        "variants of the environment, each answered according to the protocol",
    );
}

#[test]
fn any_kubeconfig_gets_one_document() {
    let (node, cell, mut numbers) = (Node::new(), Cell::new(), Numbers(seed() + 2));
    let mut good = node.kubeconfig();
    good["users"][0]["user"]["as"] = json!("jane");
    good["clusters"][0]["cluster"]["tls-server-name"] = json!("kubernetes");
    let mut stdin = netconf(&node);
    stdin["runtimeConfig"] = Value::Null;
    // Each call may take the whole deadline, because a refused connection is retried.
    let rounds = rounds() / 10;
    for round in 0..rounds {
        let text = match round % 2 {
            0 => variant(good.to_string().as_bytes(), &mut numbers),
            _ => distorted(&good, &mut numbers).to_string().into_bytes(),
        };
        std::fs::write(node.path("kubeconfig"), text).unwrap();
        cell.run(&cell.call("ADD", stdin.to_string()));
    }
    say(
        rounds,
        "variants of the kubeconfig, each answered according to the protocol",
    );
}

#[test]
fn any_pod_is_read_or_refused() {
    let mut numbers = Numbers(seed() + 3);
    let good = pod("meshed");
    for round in 0..rounds() {
        let body = match round % 2 {
            0 => variant(good.to_string().as_bytes(), &mut numbers),
            _ => distorted(&good, &mut numbers).to_string().into_bytes(),
        };
        let read = catch_unwind(|| read_pod(&body).is_ok());
        assert!(read.is_ok(), "a panic with {:?}", String::from_utf8_lossy(&body));
    }
    say(rounds(), "variants of a pod, each read or refused");
}

#[test]
fn any_pod_answer_gets_one_document() {
    let (node, namespace, mut numbers) = (Node::new(), Namespace::new(), Numbers(seed() + 4));
    let mut stdin = netconf(&node);
    stdin["runtimeConfig"] = Value::Null;
    stdin["evergreen"]["deadline-seconds"] = json!(5);
    let call = CniCall::new(PLUGIN, "ADD", namespace.path())
        .pod("shop", "web-0")
        .netconf(&stdin);
    let good = pod("meshed");
    let rounds = rounds() / 10;
    for _ in 0..rounds {
        node.api.clear_answers();
        node.api
            .set_answer("GET", POD, Answer::json(200, &distorted(&good, &mut numbers)));
        assert_answered(&call);
    }
    say(
        rounds,
        "variants of a pod of the API server, each answered according to the protocol",
    );
}
