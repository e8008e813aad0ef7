//! Definite refusals: reported at once, because a retry cannot change them.

use std::time::Duration;

use evergreen_kube::Class;
use evergreen_test_support::api::{Answer, Framing};
use serde_json::json;

use super::{POD_DETAILS, Row, check};
use crate::node::{ACCOUNT, Node};

/// Answers that a retry does not change.
pub(super) fn refusals() -> Vec<Row> {
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
            "rejected the credential (401: Unauthorized); the token from",
        ),
        (
            "401 in plain text",
            Answer::text(401, "Unauthorized\n"),
            Class::Unauthorized,
            "(401: Unauthorized)",
        ),
        (
            "403 of RBAC",
            Answer::status(403, &forbidden, "Forbidden", POD_DETAILS),
            Class::Forbidden,
            "grant it via RBAC",
        ),
        (
            "403 of RBAC with a missing role",
            Answer::status(
                403,
                &format!(
                    "{forbidden}: RBAC: clusterrole.rbac.authorization.k8s.io \"linkerd-cni\" not found"
                ),
                "Forbidden",
                POD_DETAILS,
            ),
            Class::Forbidden,
            "\"linkerd-cni\" not found",
        ),
        (
            "403 for an anonymous user",
            Answer::status(403, &anonymous, "Forbidden", POD_DETAILS),
            Class::Anonymous,
            "the API server did not receive our credential",
        ),
        (
            "403 of a firewall",
            Answer::html(403, "<html><title>Access denied</title></html>"),
            Class::NotKubernetes,
            "a proxy or load balancer denied the request (403: an HTML page titled \"Access denied\")",
        ),
        (
            "404",
            Answer::not_found("pods", "web-0"),
            Class::NotFound,
            "it does not exist (404: pods \"web-0\" not found)",
        ),
        (
            "404 of an unknown path",
            Answer::text(404, "404 page not found\n"),
            Class::NotKubernetes,
            "there is no API server at this URL (404: 404 page not found)",
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
            "use https:// in the kubeconfig",
        ),
        (
            "400",
            Answer::status(
                400,
                "the server rejected our request for an unknown reason",
                "BadRequest",
                "",
            ),
            Class::BadRequest,
            "rejected the request (400: the server rejected",
        ),
        (
            "405",
            Answer::status(
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
            Answer::status(
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
            Answer::status(409, "the object has been modified", "Conflict", POD_DETAILS),
            Class::Conflict,
            "conflict with another change",
        ),
        (
            "410",
            Answer::status(
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
            "the server sent a redirect, which no API server does (302",
        ),
        (
            "200 with a page",
            Answer::html(200, "<html><title>Sign in</title></html>"),
            Class::NotKubernetes,
            "the response is not the requested object (it is an HTML page)",
        ),
        (
            "200 with another kind",
            Answer::json(200, &json!({"kind": "Node", "apiVersion": "v1"})),
            Class::NotKubernetes,
            "kind \"Node\" of \"v1\", not Pod",
        ),
        (
            "200 with a list",
            Answer::json(200, &json!({"kind": "PodList", "apiVersion": "v1", "items": []})),
            Class::NotKubernetes,
            "kind \"PodList\"",
        ),
        (
            "200 with a field of another type",
            Answer::json(
                200,
                &json!({"kind": "Pod", "apiVersion": "v1", "spec": {"containers": {}}}),
            ),
            Class::NotKubernetes,
            "the wrong type for a Pod",
        ),
        (
            "200 with an empty body",
            Answer::encoded(200, ""),
            Class::NotKubernetes,
            "it is truncated",
        ),
        (
            "200 cut off",
            Answer::encoded(200, "{\"kind\":\"Pod\",").with_framing(Framing::Length),
            Class::NotKubernetes,
            "it is truncated",
        ),
        (
            "204",
            Answer::new(204, ""),
            Class::BadRequest,
            "(204: an empty response)",
        ),
    ]
}

#[test]
fn refusal_is_reported_without_a_retry() {
    let node = Node::new();
    for row in &refusals() {
        check(&node, row, Duration::from_secs(5));
        // A 404 from the cache is read from etcd, and a 403 may come from an API server that has just started.
        let asked = node.api.requests().len();
        match row.2 {
            Class::NotFound => assert_eq!(asked, 2, "{}", row.0),
            Class::Forbidden => assert!(asked > 2, "{}", row.0),
            _ => assert_eq!(asked, 1, "{}", row.0),
        }
    }
}
