//! Kubeconfigs that only a person can correct, and their messages.

use serde_json::{Value, json};

use super::{Row, SECRET, expect_error, with, with_cluster, with_user};
use crate::error::Class;

fn invalid_structures() -> Vec<Row> {
    vec![
        (
            "a pod",
            json!({"kind": "Pod", "apiVersion": "v1"}),
            "is of kind \"Pod\", not a kubeconfig",
        ),
        (
            "two users of one name",
            with(
                "users",
                json!([{"name": "u", "user": {"token": SECRET}}, {"name": "u", "user": {"token": SECRET}}]),
            ),
            "users has two entries named \"u\"",
        ),
        (
            "two clusters of one name",
            with("clusters", json!([{"name": "c"}, {"name": "c"}])),
            "clusters has two entries named \"c\"",
        ),
        (
            "two contexts of one name",
            with("contexts", json!([{"name": "c"}, {"name": "c"}])),
            "contexts has two entries named \"c\"",
        ),
        (
            "a list where a map belongs",
            with("clusters", json!({"local": SECRET})),
            "has a field of the wrong type",
        ),
        (
            "a token that is a map",
            with_user(json!({"token": {"a": SECRET}})),
            "has a field of the wrong type",
        ),
        (
            "users that are a string",
            with("users", json!(SECRET)),
            "has a field of the wrong type",
        ),
    ]
}

fn invalid_clusters() -> Vec<Row> {
    vec![
        (
            "an invalid server",
            with_cluster(json!({"server": "ftp://x"})),
            "neither an https:// nor an http:// URL",
        ),
        (
            "two CAs",
            with_cluster(
                json!({"server": "https://x", "certificate-authority": "a", "certificate-authority-data": "YQ=="}),
            ),
            "certificate-authority and certificate-authority-data are both set",
        ),
        (
            "a CA that would be ignored",
            with_cluster(
                json!({"server": "https://x", "certificate-authority": "a", "insecure-skip-tls-verify": true}),
            ),
            "insecure-skip-tls-verify and certificate-authority are both set",
        ),
        (
            "a proxy of another kind",
            with_cluster(json!({"server": "https://x", "proxy-url": "ftp://u:s3cret-t0ken@p"})),
            "proxy-url is not an http://, https:// or socks5:// URL",
        ),
        (
            "a proxy without a scheme",
            with_cluster(json!({"server": "https://x", "proxy-url": "p:3128"})),
            "proxy-url is not an http://",
        ),
    ]
}

fn invalid_users() -> Vec<Row> {
    let exec = |exec: Value| with_user(json!({"exec": exec}));
    let v1 = "client.authentication.k8s.io/v1";
    vec![
        (
            "a password",
            with_user(json!({"username": "admin", "password": SECRET})),
            "since Kubernetes 1.19",
        ),
        (
            "an auth provider",
            with_user(json!({"auth-provider": {"name": "gcp", "config": {"access-token": SECRET}}})),
            "auth-provider is not supported",
        ),
        (
            "a key twice",
            with_user(json!({"client-certificate": "c", "client-key": "k", "client-key-data": "YQ=="})),
            "client-key and client-key-data are both set",
        ),
        (
            "groups without a user",
            with_user(json!({"tokenFile": "t", "as-groups": ["g"]})),
            "require as, the user to impersonate",
        ),
        (
            "a uid without a user",
            with_user(json!({"tokenFile": "t", "as-uid": "1"})),
            "require as, the user to impersonate",
        ),
        (
            "an invalid header",
            with_user(json!({"tokenFile": "t", "as": "a\nb"})),
            "contains a control character",
        ),
        (
            "an exec of another version",
            exec(json!({"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "c"})),
            "exec: apiVersion is",
        ),
        (
            "an exec that wants a terminal",
            exec(json!({"apiVersion": v1, "command": "c", "interactiveMode": "Always"})),
            "there is no terminal",
        ),
    ]
}

#[test]
fn invalid_kubeconfig_is_refused_with_a_reason() {
    for row in [invalid_structures(), invalid_clusters(), invalid_users()].concat() {
        expect_error(&row, Class::Kubeconfig);
    }
}
