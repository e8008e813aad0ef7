//! Valid kubeconfigs. Invalid ones are in `refused`, incomplete ones in `unfinished`.

mod refused;
mod unfinished;

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::source::Secret;

const SECRET: &str = "s3cret-t0ken";

/// The installer's kubeconfig, with another cluster and user.
fn config(cluster: Value, user: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "linkerd-cni-context",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "linkerd-cni", "user": user}],
        "contexts": [{"name": "linkerd-cni-context", "context": {"cluster": "local", "user": "linkerd-cni"}}]})
}

fn good_cluster() -> Value {
    json!({"server": "https://10.96.0.1:443", "certificate-authority": "ca.crt"})
}

fn good_user() -> Value {
    json!({"tokenFile": "token"})
}

fn with_cluster(cluster: Value) -> Value {
    config(cluster, good_user())
}

fn with_user(user: Value) -> Value {
    config(good_cluster(), user)
}

/// A valid kubeconfig with another value of a top-level key.
fn with(key: &str, value: Value) -> Value {
    let mut config = config(good_cluster(), good_user());
    config[key] = value;
    config
}

/// What is wrong, the kubeconfig, and what the message must contain.
type Row = (&'static str, Value, &'static str);

/// Expects a message on one line, without the secret.
fn expect_error((what, config, says): &Row, class: Class) {
    let error = parse(&config.to_string()).expect_err(what);
    assert_eq!(error.class, class, "{what}: {error}");
    let error = error.to_string();
    assert!(error.contains(says), "{what}: {error}");
    assert!(!error.contains(SECRET), "{what}: {error}");
    assert!(!error.contains('\n'), "{what}: {error}");
}

fn parse(text: &str) -> Result<Kubeconfig, Error> {
    Kubeconfig::parse(text, Path::new("/etc/cni/net.d"))
}

/// The same document as YAML.
const YAML: &str = "
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: https://10.96.0.1:443
    certificate-authority: ca.crt
    some-new-field: {a: [1, 2]}
users:
- name: linkerd-cni
  user:
    tokenFile: token
contexts:
- name: linkerd-cni-context
  context: {cluster: local, user: linkerd-cni, namespace: default}
current-context: linkerd-cni-context
preferences: {}
";

#[test]
fn json_and_yaml_are_equivalent() {
    let json = parse(&config(good_cluster(), good_user()).to_string()).unwrap();
    assert_eq!(json.server.to_string(), "https://10.96.0.1:443");
    assert_eq!(
        json.trust,
        Trust::Bundle(Source::File("/etc/cni/net.d/ca.crt".into()))
    );
    assert_eq!(
        json.identity.token,
        Some(Token::File(Source::File("/etc/cni/net.d/token".into()), None))
    );
    for text in [
        YAML.to_owned(),
        YAML.replace('\n', "\r\n"),
        format!("\u{feff}{YAML}"),
    ] {
        assert_eq!(parse(&text).unwrap(), json, "{text:?}");
    }
}

#[test]
fn linkerd_cni_context_wins_over_current_context() {
    let mut text = config(good_cluster(), good_user());
    text["contexts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "other", "context": {"cluster": "o", "user": "o"}}));
    text["current-context"] = "other".into();
    assert!(parse(&text.to_string()).is_ok());
    text["contexts"][0]["name"] = "mine".into();
    let error = parse(&text.to_string()).unwrap_err().to_string();
    assert!(error.contains("\"other\" names cluster \"o\""), "{error}");
    text["current-context"] = "mine".into();
    assert!(parse(&text.to_string()).is_ok());
}

#[test]
fn token_file_wins_over_token() {
    let both = json!({"token": SECRET, "tokenFile": "/run/token"});
    let config = parse(&config(good_cluster(), both).to_string()).unwrap();
    let wanted = Token::File(Source::File("/run/token".into()), Some(Secret::new(SECRET)));
    assert_eq!(config.identity.token, Some(wanted));
    assert!(!format!("{config:?}").contains(SECRET), "{config:?}");
}

#[test]
fn data_may_contain_white_space() {
    let cluster = json!({"server": "https://x", "certificate-authority-data": " YWJj\n ZGVm\r\n", "certificate-authority": ""});
    let user =
        json!({"client-certificate-data": "YQ==", "client-key-data": "Yg==", "token": "", "username": ""});
    let config = parse(&config(cluster, user).to_string()).unwrap();
    assert_eq!(config.trust, Trust::Bundle(Source::Data(Secret::new("abcdef"))));
    let pair = config.identity.certificate.unwrap();
    assert_eq!(
        (pair.chain, pair.key),
        (Source::Data(Secret::new("a")), Source::Data(Secret::new("b")))
    );
    assert_eq!(config.identity.token, None);
}

#[test]
fn impersonation_becomes_headers() {
    let user = json!({"tokenFile": "token", "as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"],
        "as-user-extra": {"example.com/Sco pe%": ["view", "edit"]}});
    let config = parse(&config(good_cluster(), user).to_string()).unwrap();
    let sent: Vec<String> = config
        .impersonate
        .iter()
        .map(|(n, v)| format!("{n}: {v}"))
        .collect();
    assert_eq!(
        sent,
        [
            "Impersonate-User: jane",
            "Impersonate-Uid: 7",
            "Impersonate-Group: dev",
            "Impersonate-Group: ops",
            "Impersonate-Extra-example.com%2FSco%20pe%25: view",
            "Impersonate-Extra-example.com%2FSco%20pe%25: edit",
        ]
    );
}

#[test]
fn plain_http_has_no_credential() {
    let user = json!({"token": SECRET, "client-certificate-data": "YQ==", "client-key-data": "Yg=="});
    let config = parse(&config(json!({"server": "http://127.0.0.1:8080"}), user).to_string()).unwrap();
    assert_eq!(config.identity, Identity::default());
}

#[test]
fn relative_exec_command_starts_at_the_kubeconfig() {
    for (command, found) in [
        ("aws", "aws"),
        ("./bin/aws", "/etc/cni/net.d/./bin/aws"),
        ("/opt/aws", "/opt/aws"),
    ] {
        let exec =
            json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": command}});
        let config = parse(&config(good_cluster(), exec).to_string()).unwrap();
        assert_eq!(
            config.identity.exec.unwrap().command,
            Path::new(found),
            "{command}"
        );
    }
}
