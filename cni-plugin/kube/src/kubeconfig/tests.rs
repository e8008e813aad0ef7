//! What a kubeconfig says when it is right. What is wrong with one is in `refused`, what becomes of one that a writer
//! has not finished in `unfinished`.

mod refused;
mod unfinished;

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::source::Secret;

const SECRET: &str = "s3cret-t0ken";

/// As the installer writes it, with what a test changes in its cluster and user.
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

/// A good one with another value of a key at its top.
fn with(key: &str, value: Value) -> Value {
    let mut config = config(good_cluster(), good_user());
    config[key] = value;
    config
}

/// A bad kubeconfig: what is bad in it, itself, and what the message must say.
type Row = (&'static str, Value, &'static str);

/// The message says it, in one line and without the secret.
fn tells((what, config, says): &Row, class: Class) {
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

/// The same document in the YAML people write.
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
fn json_and_yaml_say_the_same() {
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
fn the_context_of_linkerd_cni_goes_before_the_current_one() {
    let mut text = config(good_cluster(), good_user());
    text["contexts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "other", "context": {"cluster": "o", "user": "o"}}));
    text["current-context"] = "other".into();
    assert!(parse(&text.to_string()).is_ok());
    text["contexts"][0]["name"] = "mine".into();
    let error = parse(&text.to_string()).unwrap_err().to_string();
    assert!(error.contains("\"other\" names the cluster \"o\""), "{error}");
    text["current-context"] = "mine".into();
    assert!(parse(&text.to_string()).is_ok());
}

#[test]
fn a_file_wins_over_a_token_beside_it() {
    let both = json!({"token": SECRET, "tokenFile": "/run/token"});
    let config = parse(&config(good_cluster(), both).to_string()).unwrap();
    let wanted = Token::File(Source::File("/run/token".into()), Some(Secret::new(SECRET)));
    assert_eq!(config.identity.token, Some(wanted));
    assert!(!format!("{config:?}").contains(SECRET), "{config:?}");
}

#[test]
fn data_fields_may_hold_white_space_and_empty_ones_are_absent() {
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
fn whoever_we_act_as_becomes_headers() {
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
fn over_plain_http_no_credential_is_kept() {
    let user = json!({"token": SECRET, "client-certificate-data": "YQ==", "client-key-data": "Yg=="});
    let config = parse(&config(json!({"server": "http://127.0.0.1:8080"}), user).to_string()).unwrap();
    assert_eq!(config.identity, Identity::default());
}

#[test]
fn a_command_with_a_slash_lies_beside_the_kubeconfig() {
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
