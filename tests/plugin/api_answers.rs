//! Every kind of answer an API server, or what stands in its place, gives to `get pod`: its class, its message, and
//! whether the pod's annotations may decide instead.

use std::{
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use evergreen_cni::kube::Class;
use evergreen_test_support::{
    api::{Answer, Framing, Pace},
    run::{CniCall, CniReply, binary},
};
use serde_json::json;

use crate::node::{ACCOUNT, Node, POD};

/// What is answered, what it is, what the message says.
type Row = (&'static str, Answer, Class, &'static str);

fn status(code: u16, message: &str, reason: &str, details: &str) -> Answer {
    Answer::status(code, message, reason, details)
}

fn pod_details() -> &'static str {
    r#"{"name":"web-0","kind":"pods"}"#
}

/// What the server does not take, and what more asking does not change.
fn refusals() -> Vec<Row> {
    let forbidden = format!(
        "pods \"web-0\" is forbidden: User \"{ACCOUNT}\" cannot get resource \"pods\" in API group \"\" in the namespace \
         \"shop\""
    );
    let anonymous = forbidden.replace(ACCOUNT, "system:anonymous");
    vec![
        (
            "401",
            Answer::unauthorized(),
            Class::Unauthorized,
            "does not take our credential (401 Unauthorized); the token of",
        ),
        (
            "401 in plain text",
            Answer::text(401, "Unauthorized\n"),
            Class::Unauthorized,
            "(401 Unauthorized)",
        ),
        (
            "403 of RBAC",
            status(403, &forbidden, "Forbidden", pod_details()),
            Class::Forbidden,
            "give this identity the right, by RBAC",
        ),
        (
            "403 of RBAC with a missing role",
            status(
                403,
                &format!(
                    "{forbidden}: RBAC: clusterrole.rbac.authorization.k8s.io \"linkerd-cni\" not found"
                ),
                "Forbidden",
                pod_details(),
            ),
            Class::Forbidden,
            "\"linkerd-cni\" not found",
        ),
        (
            "403 for nobody",
            status(403, &anonymous, "Forbidden", pod_details()),
            Class::Anonymous,
            "no credential of ours reached the API server",
        ),
        (
            "403 of a firewall",
            Answer::html(403, "<html><title>Access denied</title></html>"),
            Class::NotKubernetes,
            "something on the way refused us (403: an HTML page titled \"Access denied\")",
        ),
        (
            "404",
            Answer::not_found("pods", "web-0"),
            Class::NotFound,
            "it does not exist, or no longer (404: pods \"web-0\" not found)",
        ),
        (
            "404 of an unknown path",
            Answer::text(404, "404 page not found\n"),
            Class::NotKubernetes,
            "no API server is under this URL (404: 404 page not found)",
        ),
        (
            "404 of a web server",
            Answer::html(404, "<html>no</html>"),
            Class::NotKubernetes,
            "(404: an HTML page)",
        ),
        (
            "400 without TLS",
            Answer::text(400, "Client sent an HTTP request to an HTTPS server.\n"),
            Class::BadRequest,
            "write https:// in the kubeconfig",
        ),
        (
            "400",
            status(
                400,
                "the server rejected our request for an unknown reason",
                "BadRequest",
                "",
            ),
            Class::BadRequest,
            "refuses the request (400: the server rejected",
        ),
        (
            "405",
            status(
                405,
                "the server does not allow this method on the requested resource",
                "MethodNotAllowed",
                "{}",
            ),
            Class::BadRequest,
            "(405:",
        ),
        (
            "406",
            status(
                406,
                "only the following media types are accepted",
                "NotAcceptable",
                "",
            ),
            Class::BadRequest,
            "(406:",
        ),
        (
            "409",
            status(409, "the object has been modified", "Conflict", pod_details()),
            Class::Conflict,
            "something was changed meanwhile",
        ),
        (
            "410",
            status(
                410,
                "The resourceVersion for the provided watch is too old.",
                "Expired",
                "",
            ),
            Class::BadRequest,
            "(410:",
        ),
        (
            "a redirect",
            Answer::new(302, "").with_header("Location", "https://login.example.org/"),
            Class::NotKubernetes,
            "answered with a redirect (302)",
        ),
        (
            "200 with a page",
            Answer::html(200, "<html><title>Sign in</title></html>"),
            Class::NotKubernetes,
            "the answer is not the object (it is an HTML page)",
        ),
        (
            "200 with another kind",
            Answer::json(200, &json!({"kind": "Node", "apiVersion": "v1"})),
            Class::NotKubernetes,
            "a \"Node\" of \"v1\", not a Pod",
        ),
        (
            "200 with a list",
            Answer::json(200, &json!({"kind": "PodList", "apiVersion": "v1", "items": []})),
            Class::NotKubernetes,
            "a \"PodList\"",
        ),
        (
            "200 with a field of another type",
            Answer::json(
                200,
                &json!({"kind": "Pod", "apiVersion": "v1", "spec": {"containers": {}}}),
            ),
            Class::NotKubernetes,
            "another type than a Pod's",
        ),
        (
            "200 and nothing",
            Answer::encoded(200, ""),
            Class::NotKubernetes,
            "it ends too early",
        ),
        (
            "200 cut off",
            Answer::encoded(200, "{\"kind\":\"Pod\",").with_framing(Framing::Length),
            Class::NotKubernetes,
            "it ends too early",
        ),
        (
            "204",
            Answer::new(204, ""),
            Class::BadRequest,
            "(204: an empty answer)",
        ),
    ]
}

/// What may be over in a moment: asked again until the deadline.
fn troubles() -> Vec<Row> {
    vec![
        (
            "429 of fairness",
            Answer::too_many_requests(1),
            Class::TooManyRequests,
            "too much to do (429: Too many requests, please try again later.)",
        ),
        (
            "429 of the watch cache",
            status(
                429,
                "storage is (re)initializing",
                "TooManyRequests",
                r#"{"retryAfterSeconds":1}"#,
            ),
            Class::TooManyRequests,
            "storage is (re)initializing",
        ),
        (
            "500 of etcd",
            status(
                500,
                "etcdserver: request timed out",
                "ServerTimeout",
                r#"{"name":"get","kind":"pods","retryAfterSeconds":2}"#,
            )
            .with_header("Retry-After", "2"),
            Class::Server,
            "cannot answer now (500: etcdserver",
        ),
        (
            "500 without a reason",
            status(500, "rpc error: code = Unavailable", "", ""),
            Class::Server,
            "(500: rpc error",
        ),
        (
            "500 of a panic",
            Answer::text(
                500,
                "This request caused apiserver to panic. Look in the logs for details.\n",
            ),
            Class::Server,
            "caused apiserver to panic",
        ),
        (
            "500 without a message",
            status(500, "", "InternalError", ""),
            Class::Server,
            "(500: InternalError)",
        ),
        (
            "502 of a proxy",
            Answer::html(502, "<html><head><title>502 Bad Gateway</title></head></html>"),
            Class::Server,
            "an HTML page titled \"502 Bad Gateway\"",
        ),
        (
            "503 at shutdown",
            Answer::shutting_down(),
            Class::Server,
            "(503: apiserver is shutting down)",
        ),
        (
            "503 at start",
            status(
                503,
                "the request has been made before all known HTTP paths have been installed, please try again",
                "ServiceUnavailable",
                r#"{"retryAfterSeconds":5}"#,
            ),
            Class::Server,
            "before all known HTTP paths",
        ),
        (
            "503 and nothing",
            Answer::new(503, ""),
            Class::Server,
            "(503: an empty answer)",
        ),
        (
            "504",
            Answer::timed_out(),
            Class::Server,
            "did not complete within the allotted timeout",
        ),
        (
            "a body that breaks off",
            Answer::encoded(200, "x".repeat(9000)).with_framing(Framing::CutChunks),
            Class::Unreachable,
            "the connection broke",
        ),
        (
            "a reset before the answer",
            Answer::new(200, "").with_pace(Pace::Reset),
            Class::Unreachable,
            "the connection broke",
        ),
        (
            "a reset in the body",
            Answer::encoded(200, "x".repeat(9000)).with_pace(Pace::ResetAfter(3000)),
            Class::Unreachable,
            "the connection broke",
        ),
    ]
}

/// What a server asks for and does not get: more time than there is, or what is no time.
fn odd_pauses() -> Vec<Row> {
    let busy = |after: &str| Answer::text(503, "later\n").with_header("Retry-After", after);
    vec![
        ("an hour", busy("3600"), Class::Server, "(503: later)"),
        ("a negative time", busy("-1"), Class::Server, "(503: later)"),
        (
            "a date",
            busy("Wed, 21 Oct 2026 07:28:00 GMT"),
            Class::Server,
            "(503: later)",
        ),
        (
            "an endless time",
            busy("99999999999999999999999"),
            Class::Server,
            "(503: later)",
        ),
    ]
}

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

#[test]
fn a_refusal_is_told_once_with_its_class_and_without_a_secret() {
    let node = Node::new();
    for row in &refusals() {
        check(&node, row, Duration::from_secs(5));
        // The store is asked after a 404 of the cache, and a 403 may be an API server that has just started.
        let asked = node.api.requests().len();
        match row.2 {
            Class::NotFound => assert_eq!(asked, 2, "{}", row.0),
            Class::Forbidden => assert!(asked > 2, "{}", row.0),
            _ => assert_eq!(asked, 1, "{}", row.0),
        }
    }
}

#[test]
fn a_trouble_is_asked_again_until_the_deadline_and_then_told() {
    let deadline = Duration::from_secs(1);
    // Each on a node of its own, all at once: nearly all of the time is pauses.
    thread::scope(|scope| {
        for row in troubles().into_iter().chain(odd_pauses()) {
            scope.spawn(move || {
                let node = Node::new();
                let start = Instant::now();
                check(&node, &row, deadline);
                let took = start.elapsed();
                assert!(
                    took < deadline + Duration::from_millis(300),
                    "{}: {took:?}",
                    row.0
                );
                assert!(node.api.requests().len() > 1, "{}: it was asked once", row.0);
            });
        }
    });
}

#[test]
fn a_trouble_that_passes_costs_no_call() {
    let node = Node::new();
    for (what, answer, _, _) in troubles() {
        // How long the server wants to be left alone is another test's matter, and seconds of this one's.
        let waits = answer.headers.iter().any(|(n, _)| n == "Retry-After")
            || String::from_utf8_lossy(&answer.body).contains("retryAfterSeconds");
        if waits {
            continue;
        }
        node.api.clear_answers();
        node.api.set_answer_times("GET", POD, answer, 1);
        node.ask().unwrap_or_else(|e| panic!("{what}: {e}"));
    }
}

/// The plugin itself, told to say all it can.
fn call(node: &Node, verb: &str) -> CniReply {
    let netconf = json!({"cniVersion": "1.1.0", "name": "linkerd-cni", "type": "linkerd-cni", "log_level": "debug",
        "kubernetes": {"kubeconfig": node.path("kubeconfig")}, "evergreen": {"deadline-seconds": 1},
        "prevResult": {"cniVersion": "1.1.0", "interfaces": [], "ips": []}});
    let call = CniCall::new(binary("evergreen-cni"), verb, "/var/run/netns/none").pod("shop", "web-0");
    call.netconf(&netconf).run().expect("the plugin runs")
}

#[test]
fn the_plugin_prints_no_part_of_a_secret_whatever_is_answered() {
    thread::scope(|scope| {
        for (what, answer, _, _) in refusals().into_iter().chain(troubles()) {
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
fn annotations_may_decide_when_the_server_cannot_be_asked_and_not_when_it_has_answered() {
    let node = Node::new();
    let decide = |answer: Answer| {
        node.api.clear_answers();
        node.api.set_answer("GET", POD, answer);
        node.ask_within(Duration::from_millis(200))
            .unwrap_err()
            .cannot_be_asked()
    };
    assert!(decide(Answer::unauthorized()));
    assert!(decide(Answer::shutting_down()));
    assert!(decide(Answer::too_many_requests(60)));
    assert!(decide(Answer::html(200, "<html>")));
    assert!(!decide(Answer::not_found("pods", "web-0")));
    assert!(!decide(Answer::text(400, "no\n")));
}

#[test]
fn every_framing_of_a_body_is_read() {
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
fn a_pod_of_three_megabytes_is_read() {
    let node = Node::new();
    let mut pod = crate::node::pod("meshed");
    pod["metadata"]["annotations"]["filler"] = "x".repeat(3 << 20).into();
    node.api.put_pod("shop", "web-0", pod);
    assert_eq!(node.ask().unwrap().annotations["filler"].len(), 3 << 20);
}
