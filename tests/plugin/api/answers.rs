//! Every answer an API server or a proxy in front of it gives to `get pod`: its error class, its message, and whether
//! the pod's annotations may decide instead.

mod refusals;
mod transient;

use std::{thread, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use evergreen_kube::Class;
use evergreen_test_support::{
    api::{Answer, Framing},
    run::{CniCall, CniReply, binary},
};
use serde_json::json;

use self::{refusals::refusals, transient::transient_failures};
use crate::node::{Node, POD};

/// A case: its name, the answer, the expected error class, and a part of the expected message.
type Row = (&'static str, Answer, Class, &'static str);

/// The `details` of a `Status` about the pod.
const POD_DETAILS: &str = r#"{"name":"web-0","kind":"pods"}"#;

fn check(node: &Node, row: &Row, within: Duration) {
    let (what, answer, class, says) = row;
    let token = node.rotate();
    node.api.clear_answers();
    node.api.clear_requests();
    node.api.set_answer("GET", POD, answer.clone());
    let error = node.ask_within(within).expect_err(what);
    assert_eq!(error.class, *class, "{what}: {error}");
    let text = error.to_string();
    assert!(text.contains(says), "{what}: {says:?} is not in {text}");
    let place = format!("get pod shop/web-0 (GET {}{POD})", node.api.url());
    assert!(text.starts_with(&place), "{what}: {text}");
    assert!(!text.contains('\n') && text.len() < 1500, "{what}: {text}");
    let secrets = token
        .split('.')
        .chain([token.as_str()])
        .any(|part| text.contains(part));
    assert!(!secrets, "{what}: {text}");
}

/// Runs the plugin with debug logging.
fn call(node: &Node, verb: &str) -> CniReply {
    let netconf = json!({"cniVersion": "1.1.0", "name": "linkerd-cni", "type": "linkerd-cni", "log_level": "debug",
        "kubernetes": {"kubeconfig": node.path("kubeconfig")}, "evergreen": {"deadline-seconds": 1},
        "prevResult": {"cniVersion": "1.1.0", "interfaces": [], "ips": []}});
    let call = CniCall::new(binary("evergreen-cni"), verb, "/var/run/netns/none").pod("shop", "web-0");
    call.netconf(&netconf).run().expect("the plugin runs")
}

#[test]
fn output_never_contains_a_secret() {
    thread::scope(|scope| {
        for (what, answer, _, _) in refusals().into_iter().chain(transient_failures()) {
            scope.spawn(move || {
                let node = Node::new();
                let token = node.rotate();
                let pair = node.pki.ca.client("system:node:node1", &[]);
                let user = json!({"tokenFile": "token", "client-certificate-data": STANDARD.encode(&pair.certificate),
                    "client-key-data": STANDARD.encode(&pair.key)});
                node.write_kubeconfig(&node.with_user(user));
                node.api.set_answer("GET", POD, answer);
                let reply = call(&node, "ADD");
                assert_eq!(reply.exit_code, Some(1), "{what}: {reply:?}");
                let error = reply.document().unwrap();
                assert!(error["msg"].as_str().unwrap().contains("get pod shop/web-0"), "{what}: {error}");
                let said = format!("{}{}", reply.stdout, reply.stderr);
                let key = STANDARD.encode(&pair.key);
                let key_lines = pair.key.lines().filter(|l| !l.starts_with('-'));
                for secret in token.split('.').chain(key_lines).chain([key.as_str()]) {
                    assert!(!said.contains(secret), "{what}: {said}");
                }
            });
        }
    });
}

#[test]
fn annotations_decide_only_without_a_definite_answer() {
    let node = Node::new();
    let decide = |answer: Answer| {
        node.api.clear_answers();
        node.api.set_answer("GET", POD, answer);
        node.ask_within(Duration::from_millis(200))
            .unwrap_err()
            .is_unavailable()
    };
    assert!(decide(Answer::unauthorized()));
    assert!(decide(Answer::shutting_down()));
    assert!(decide(Answer::too_many_requests(60)));
    assert!(decide(Answer::html(200, "<html>")));
    assert!(!decide(Answer::not_found("pods", "web-0")));
    assert!(!decide(Answer::text(400, "no\n")));
}

#[test]
fn every_body_framing_is_read() {
    let node = Node::new();
    let answer = Answer::json(200, &crate::node::pod("meshed"));
    for framing in [
        Framing::Go,
        Framing::Length,
        Framing::Chunked,
        Framing::UntilClose,
    ] {
        node.api.clear_answers();
        node.api
            .set_answer("GET", POD, answer.clone().with_framing(framing));
        node.ask().unwrap_or_else(|e| panic!("{framing:?}: {e}"));
    }
    node.api.clear_answers();
    node.api.set_answer("GET", POD, answer.closing());
    node.ask().unwrap();
}

#[test]
fn three_megabyte_pod_is_read() {
    let node = Node::new();
    let mut pod = crate::node::pod("meshed");
    pod["metadata"]["annotations"]["filler"] = "x".repeat(3 << 20).into();
    node.api.put_pod("shop", "web-0", pod);
    assert_eq!(node.ask().unwrap().annotations["filler"].len(), 3 << 20);
}
