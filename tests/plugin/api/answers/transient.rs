//! Transient failures: retried until the deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

use evergreen_kube::Class;
use evergreen_test_support::{
    api::{Answer, Framing, Pace},
    budget::within,
};

use super::{Row, check};
use crate::node::{Node, POD};

/// Failures that a retry may resolve.
pub(super) fn transient_failures() -> Vec<Row> {
    vec![
        (
            "429 of fairness",
            Answer::too_many_requests(1),
            Class::TooManyRequests,
            "the API server is overloaded (429: Too many requests, please try again later.)",
        ),
        (
            "429 of the watch cache",
            Answer::status(
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
            Answer::status(
                500,
                "etcdserver: request timed out",
                "ServerTimeout",
                r#"{"name":"get","kind":"pods","retryAfterSeconds":2}"#,
            )
            .with_header("Retry-After", "2"),
            Class::Server,
            "failed to serve the request (500: etcdserver",
        ),
        (
            "500 without a reason",
            Answer::status(500, "rpc error: code = Unavailable", "", ""),
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
            Answer::status(500, "", "InternalError", ""),
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
            Answer::status(
                503,
                "the request has been made before all known HTTP paths have been installed, please try again",
                "ServiceUnavailable",
                r#"{"retryAfterSeconds":5}"#,
            ),
            Class::Server,
            "before all known HTTP paths",
        ),
        (
            "503 with an empty body",
            Answer::new(503, ""),
            Class::Server,
            "(503: an empty response)",
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
            "the connection closed",
        ),
        (
            "a reset before the answer",
            Answer::new(200, "").with_pace(Pace::Reset),
            Class::Unreachable,
            "the connection closed",
        ),
        (
            "a reset in the body",
            Answer::encoded(200, "x".repeat(9000)).with_pace(Pace::ResetAfter(3000)),
            Class::Unreachable,
            "the connection closed",
        ),
    ]
}

/// Retry-After values beyond the deadline, or not a duration.
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

#[test]
fn transient_failure_is_retried_until_the_deadline() {
    let deadline = Duration::from_secs(1);
    // All at once, each with its own node: nearly all the time is spent waiting.
    thread::scope(|scope| {
        for row in transient_failures().into_iter().chain(odd_pauses()) {
            scope.spawn(move || {
                let node = Node::new();
                let start = Instant::now();
                check(&node, &row, deadline);
                let took = start.elapsed();
                assert!(
                    took < deadline + within(Duration::from_millis(300)),
                    "{}: {took:?}",
                    row.0
                );
                assert!(node.api.requests().len() > 1, "{}: it was asked once", row.0);
            });
        }
    });
}

#[test]
fn passing_failure_does_not_fail_the_call() {
    let node = Node::new();
    for (what, answer, _, _) in transient_failures() {
        // Another test covers Retry-After, which would cost this one seconds.
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
