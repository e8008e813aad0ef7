//! Kubeconfigs that only a person can put right, and what they are told.

use serde_json::{Value, json};

use super::{Row, SECRET, tells, with, with_cluster, with_user};
use crate::error::Class;

fn wrong() -> Vec<Row> {
    let exec = |exec: Value| with_user(json!({"exec": exec}));
    let v1 = "client.authentication.k8s.io/v1";
    vec![
        (
            "a pod",
            json!({"kind": "Pod", "apiVersion": "v1"}),
            "is a \"Pod\", not a kubeconfig",
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
            "has a field of another type",
        ),
        (
            "a token that is a map",
            with_user(json!({"token": {"a": SECRET}})),
            "has a field of another type",
        ),
        (
            "users that are a string",
            with("users", json!(SECRET)),
            "has a field of another type",
        ),
        (
            "a server that is none",
            with_cluster(json!({"server": "ftp://x"})),
            "neither an https:// nor an http:// URL",
        ),
        (
            "both authorities",
            with_cluster(
                json!({"server": "https://x", "certificate-authority": "a", "certificate-authority-data": "YQ=="}),
            ),
            "certificate-authority and certificate-authority-data are both set",
        ),
        (
            "an authority that is not looked at",
            with_cluster(
                json!({"server": "https://x", "certificate-authority": "a", "insecure-skip-tls-verify": true}),
            ),
            "insecure-skip-tls-verify is set beside a certificate-authority",
        ),
        (
            "a proxy of another kind",
            with_cluster(json!({"server": "https://x", "proxy-url": "ftp://u:s3cret-t0ken@p"})),
            "proxy-url is not a URL of http://, https:// or socks5://",
        ),
        (
            "a proxy without a scheme",
            with_cluster(json!({"server": "https://x", "proxy-url": "p:3128"})),
            "proxy-url is not a URL",
        ),
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
            "groups without a user to act as",
            with_user(json!({"tokenFile": "t", "as-groups": ["g"]})),
            "need as, the user to act as",
        ),
        (
            "a uid without a user to act as",
            with_user(json!({"tokenFile": "t", "as-uid": "1"})),
            "need as, the user to act as",
        ),
        (
            "a header that is none",
            with_user(json!({"tokenFile": "t", "as": "a\nb"})),
            "holds a control character",
        ),
        (
            "an exec of another version",
            exec(json!({"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "c"})),
            "exec: apiVersion is",
        ),
        (
            "an exec that wants a terminal",
            exec(json!({"apiVersion": v1, "command": "c", "interactiveMode": "Always"})),
            "there is no terminal here",
        ),
    ]
}

#[test]
fn a_wrong_kubeconfig_is_refused_with_a_reason_and_without_a_secret() {
    for row in wrong() {
        tells(&row, Class::Kubeconfig);
    }
}
