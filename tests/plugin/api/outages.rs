//! API servers that are slow, down, stale or elsewhere: the call ends by its deadline and succeeds as soon as it can.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use evergreen_kube::{
    Class, Client, Error, Pod, Wait,
    deadline::Deadline,
    log::{Component, Level, Log},
};
use evergreen_test_support::{
    api::{Answer, BlackHole, Door, Pace},
    budget::within,
};
use serde_json::json;

use crate::node::{ACCOUNT, Node, POD, pod};

const DEADLINE: Duration = Duration::from_millis(600);
const TOLERANCE: Duration = Duration::from_millis(200);

/// Gets the pod, asserts a timeout at the deadline, and returns the message.
fn times_out(node: &Node, what: &str) -> String {
    let start = Instant::now();
    let error = node.ask_within(DEADLINE).expect_err(what);
    let took = start.elapsed();
    assert_eq!(error.class, Class::Timeout, "{what}: {error}");
    assert!(took < DEADLINE + within(TOLERANCE), "{what}: {took:?}: {error}");
    assert!(error.is_unavailable());
    error.to_string()
}

#[test]
fn stalled_connect_ends_at_the_deadline() {
    let (node, hole) = (Node::new(), BlackHole::open());
    node.write_kubeconfig(
        &node.with_cluster(json!({"server": hole.url(), "certificate-authority": "ca.crt"})),
    );
    let error = times_out(&node, "connect");
    assert!(error.contains("for a TCP connection"), "{error}");
}

#[test]
fn stalled_handshake_ends_at_the_deadline() {
    let node = Node::new();
    node.api.set_door(Door::Silent);
    let error = times_out(&node, "handshake");
    assert!(error.contains("for the TLS handshake"), "{error}");
}

#[test]
fn stalled_first_byte_ends_at_the_deadline() {
    let node = Node::new();
    node.api
        .set_answer("GET", POD, Answer::new(200, "").with_pace(Pace::Never));
    let error = times_out(&node, "first byte");
    assert!(error.contains("for the first byte of the response"), "{error}");
}

#[test]
fn stalled_body_ends_at_the_deadline() {
    let node = Node::new();
    let answer = Answer::json(200, &pod("meshed"));
    node.api
        .set_answer("GET", POD, answer.clone().with_pace(Pace::StallAfter(5000)));
    let error = times_out(&node, "body");
    assert!(error.contains("for the rest of the response"), "{error}");
    node.api.clear_answers();
    node.api.set_answer(
        "GET",
        POD,
        answer.with_pace(Pace::Trickle(Duration::from_millis(1))),
    );
    times_out(&node, "a trickle");
}

#[test]
fn unresolved_name_ends_at_the_deadline() {
    let node = Node::new();
    let cluster = json!({"server": "https://evergreen.invalid:6443", "certificate-authority": "ca.crt"});
    node.write_kubeconfig(&node.with_cluster(cluster));
    let start = Instant::now();
    let error = node.ask_within(DEADLINE).unwrap_err();
    assert!(start.elapsed() < DEADLINE + within(TOLERANCE), "{error}");
    // The machine's resolver decides whether the lookup fails at once or times out.
    assert!(
        matches!(error.class, Class::Unreachable | Class::Timeout),
        "{error}"
    );
    assert!(
        error.to_string().contains("https://evergreen.invalid:6443"),
        "{error}"
    );
}

#[test]
fn slow_answer_is_awaited() {
    let node = Node::new();
    let answer = Answer::json(200, &pod("meshed")).with_pace(Pace::After(Duration::from_millis(400)));
    node.api.set_answer("GET", POD, answer);
    node.ask().unwrap();
    assert_eq!(node.api.requests().len(), 1);
}

#[test]
fn down_server_is_reported_then_found_on_return() {
    let mut node = Node::new();
    node.api.pause();
    let error = node.ask_within(DEADLINE).unwrap_err();
    assert_eq!(error.class, Class::Unreachable, "{error}");
    assert!(
        error
            .to_string()
            .contains("connection refused; is the API server up"),
        "{error}"
    );
    assert!(error.to_string().contains(" attempts in "), "{error}");
    let kubeconfig = node.path("kubeconfig");
    let asking = thread::spawn(move || ask(&kubeconfig));
    node.api.resume();
    asking.join().unwrap().unwrap();
}

fn ask(kubeconfig: &std::path::Path) -> Result<Pod, Error> {
    crate::node::open(kubeconfig, Duration::from_secs(10))?.pod("shop", "web-0", None)
}

#[test]
fn broken_connections_are_told_apart() {
    let node = Node::new();
    for (door, class, says) in [
        (Door::Reset, Class::Unreachable, "the connection closed"),
        (
            Door::ResetInHandshake,
            Class::Unreachable,
            "the connection closed",
        ),
        (Door::NotTls, Class::NotKubernetes, "does not speak TLS"),
    ] {
        node.api.set_door(door);
        let error = node.ask_within(Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.class, class, "{door:?}: {error}");
        assert!(error.to_string().contains(says), "{door:?}: {error}");
    }
}

#[test]
fn plain_http_sends_no_credential() {
    let node = Node::new();
    node.api.set_door(Door::Plain);
    node.write_kubeconfig(&node.with_cluster(json!({"server": node.api.url().replace("https", "http")})));
    let error = node.ask().unwrap_err();
    assert_eq!(error.class, Class::Anonymous, "{error}");
    assert_eq!(node.api.requests()[0].user.as_deref(), Some("system:anonymous"));
}

#[test]
fn startup_403_is_retried() {
    let node = Node::new();
    let forbidden = format!(
        "pods \"web-0\" is forbidden: User \"{ACCOUNT}\" cannot get resource \"pods\" in API group \"\" in the namespace \
         \"shop\""
    );
    let answer = Answer::status(403, &forbidden, "Forbidden", r#"{"name":"web-0","kind":"pods"}"#);
    node.api.set_answer_times("GET", POD, answer, 3);
    node.ask().unwrap();
    assert_eq!(node.api.requests().len(), 4);
}

#[test]
fn retry_after_is_honoured() {
    let node = Node::new();
    node.api
        .set_answer_times("GET", POD, Answer::too_many_requests(1), 1);
    let start = Instant::now();
    node.ask().unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn fallback_skips_a_retry_after_the_deadline() {
    let node = Node::new();
    node.api.set_answer("GET", POD, Answer::too_many_requests(2));
    let wait = Deadline::after(Duration::from_secs(1));
    let client = Client::open(
        &node.path("kubeconfig"),
        Wait::with_fallback(wait),
        Log::new(Component::Plugin, Level::Warn),
    );
    let error = client.unwrap().pod("shop", "web-0", None).unwrap_err();
    assert_eq!(error.class, Class::TooManyRequests);
    assert!(
        !wait.is_over(),
        "the plugin waited although the pause exceeds its deadline"
    );
    assert_eq!(node.api.requests().len(), 1);
}

#[test]
fn request_without_remaining_time_names_the_earlier_one() {
    let node = Node::new();
    let slow = Answer::json(200, &pod("meshed")).with_pace(Pace::After(DEADLINE * 3 / 4));
    node.api.set_answer("GET", POD, slow);
    let never = Answer::new(200, "").with_pace(Pace::Never);
    node.api.set_answer("GET", "/api/v1/namespaces/shop", never);
    let mut client = node.client(DEADLINE).unwrap();
    client.pod("shop", "web-0", None).unwrap();
    let error = client.namespace("shop").unwrap_err().to_string();
    assert!(error.contains("earlier requests took"), "{error}");
}

#[test]
fn queue_timeout_matches_the_deadline() {
    let node = Node::new();
    node.ask_within(DEADLINE).unwrap();
    let query = node.api.requests()[0].query.clone();
    let timeout = query.split("timeout=").nth(1).and_then(|t| t.strip_suffix("ms"));
    let timeout: u128 = timeout.unwrap().parse().unwrap();
    // API Priority and Fairness queues a request for a quarter of its timeout.
    let queued = timeout / 4;
    assert!(
        queued <= DEADLINE.as_millis() && queued > DEADLINE.as_millis() / 2,
        "{query}"
    );
}

#[test]
fn cache_miss_is_read_from_etcd() {
    let node = Node::new();
    node.api.set_cached(POD, None);
    node.ask().unwrap();
    let queries: Vec<_> = node
        .api
        .requests()
        .iter()
        .map(|r| r.query.contains("resourceVersion=0"))
        .collect();
    assert_eq!(queries, [true, false]);
}

#[test]
fn wrong_uid_is_reread_from_etcd_then_refused() {
    let node = Node::new();
    let mut old = pod("meshed");
    old["metadata"]["uid"] = "of-the-old-one".into();
    node.api.set_cached(POD, Some(old));
    let uid = "6b0e3a2e-52f7-4c3f-9a51-3d1b2c4e5f60";
    let ask = |uid: &str| {
        node.client(Duration::from_secs(5))
            .unwrap()
            .pod("shop", "web-0", Some(uid))
    };
    ask(uid).unwrap();
    assert_eq!(node.api.requests().len(), 2, "the cache was behind");
    ask("of-the-old-one").unwrap();
    assert_eq!(node.api.requests().len(), 3, "the cache had it");
    let error = ask("of-another").unwrap_err();
    assert_eq!(error.class, Class::WrongUid, "{error}");
    assert!(!error.is_unavailable());
    for says in ["UID of-another", uid, "recreated"] {
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn dead_token_is_reported_with_the_reason() {
    let node = Node::new();
    let dead = node.api.mint("linkerd-cni", "linkerd-cni", None, -7200);
    node.write("token", &dead);
    let error = node.ask().unwrap_err().to_string();
    assert!(error.contains("expired 2h ago"), "{error}");
    assert!(error.contains(node.path("token").to_str().unwrap()), "{error}");
    let bound = evergreen_test_support::api::Bound {
        kind: "Pod".into(),
        name: "linkerd-cni-x7k2p".into(),
        uid: "u1".into(),
    };
    node.write(
        "token",
        &node.api.mint("linkerd-cni", "linkerd-cni", Some(&bound), 3600),
    );
    let error = node.ask().unwrap_err().to_string();
    assert!(
        error.contains("bound to pod \"linkerd-cni\"/\"linkerd-cni-x7k2p\" (UID \"u1\")"),
        "{error}"
    );
    let keys = fs::read_to_string(node.path("token")).unwrap();
    assert!(!error.contains(&keys), "{error}");
}

#[test]
fn stalled_handshake_is_named_after_retries() {
    let node = Node::new();
    node.api.set_door(Door::Silent);
    let said = node.failing_add();
    assert!(said.contains("for the TLS handshake"), "{said}");
    assert!(!said.contains("after 0.0 s"), "{said}");
}
