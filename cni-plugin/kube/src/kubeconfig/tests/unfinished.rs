//! Kubeconfigs as a power cut or an unfinished write leaves them.

use serde_json::{Value, json};

use super::{Row, SECRET, YAML, config, expect_error, good_cluster, parse, with, with_cluster, with_user};
use crate::error::Class;

/// The order that `kubectl config` writes.
const SORTED: &str = "
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: YWJjZGVm
    server: https://10.96.0.1:443
  name: local
contexts:
- context:
    cluster: local
    user: me
  name: local
current-context: local
kind: Config
preferences: {}
users:
- name: me
  user:
";

#[test]
fn truncated_yaml_counts_as_missing_credential() {
    let users = [
        "    client-certificate-data: YWJjZGVm\n    client-key-data: YWJjZGVm\n",
        "    as: jane\n    as-groups:\n    - dev\n    tokenFile: /run/token\n",
        "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: aws\n      interactiveMode: Never\n",
    ];
    let sorted = users.map(|user| format!("{SORTED}{user}"));
    for whole in sorted.iter().map(String::as_str).chain([YAML]) {
        parse(whole).expect("the whole one is good");
        for end in 0..whole.len() {
            if let Err(error) = parse(&whole[..end]) {
                assert_eq!(error.class, Class::Credential, "{}\n{error}", &whole[..end]);
            }
        }
    }
}

fn incomplete_entries() -> Vec<Row> {
    vec![
        (
            "nothing in it",
            json!({}),
            "has no current-context and no context \"linkerd-cni-context\"",
        ),
        (
            "a context that is not there",
            json!({"current-context": "x"}),
            "current-context \"x\" does not exist",
        ),
        (
            "contexts without a value",
            with("contexts", json!([{"name": "linkerd-cni-context"}])),
            "is empty",
        ),
        (
            "a context without a cluster",
            with(
                "contexts",
                json!([{"name": "linkerd-cni-context", "context": {"user": "linkerd-cni"}}]),
            ),
            "names no cluster; the clusters are: \"local\"",
        ),
        (
            "a context without a user",
            with(
                "contexts",
                json!([{"name": "linkerd-cni-context", "context": {"cluster": "local"}}]),
            ),
            "names no user; the users are: \"linkerd-cni\"",
        ),
        (
            "a cluster that is not there",
            with("clusters", Value::Null),
            "names cluster \"local\", which does not exist; the clusters are: (none)",
        ),
        (
            "a user that is not there",
            with("users", json!([])),
            "names user \"linkerd-cni\", which does not exist",
        ),
        (
            "a user without a credential",
            with_user(json!({})),
            "user \"linkerd-cni\": has no credential",
        ),
        (
            "a user that is null",
            with("users", json!([{"name": "linkerd-cni", "user": null}])),
            "user \"linkerd-cni\" is empty",
        ),
        (
            "no server",
            with_cluster(json!({"certificate-authority": "ca.crt"})),
            "cluster \"local\": has no server",
        ),
    ]
}

fn incomplete_credentials() -> Vec<Row> {
    let exec = |exec: Value| with_user(json!({"exec": exec}));
    let v1 = "client.authentication.k8s.io/v1";
    vec![
        (
            "data that is not base64",
            with_cluster(json!({"server": "https://x", "certificate-authority-data": "s3cret-t0ken!"})),
            "certificate-authority-data is not base64",
        ),
        (
            "a certificate without a key",
            with_user(json!({"client-certificate": "c"})),
            "no client-key; add the key",
        ),
        (
            "a key without a certificate",
            with_user(json!({"client-key-data": "YQ=="})),
            "no client-certificate; add the certificate",
        ),
        (
            "an exec of v1 without a mode",
            exec(json!({"apiVersion": v1, "command": "c"})),
            "exec: interactiveMode is missing; set it to Never",
        ),
        (
            "an exec of an unknown mode",
            exec(json!({"apiVersion": v1, "command": "c", "interactiveMode": "Sometimes"})),
            "exec: interactiveMode is \"Sometimes\"",
        ),
        (
            "an exec without a command",
            exec(json!({"apiVersion": v1, "interactiveMode": "Never"})),
            "exec: command is missing",
        ),
    ]
}

#[test]
fn missing_part_counts_as_missing_credential() {
    for row in incomplete_entries().into_iter().chain(incomplete_credentials()) {
        expect_error(&row, Class::Credential);
    }
}

#[test]
fn unreadable_text_is_located_not_quoted() {
    let cut = |text: &str| text[..text.len() - 30].to_owned();
    let json = config(good_cluster(), json!({"token": SECRET})).to_string();
    let yaml = YAML.replace("tokenFile: token", &format!("token: {SECRET}"));
    for (what, text) in [
        ("truncated json", cut(&json)),
        ("json with a trailing comma", json.replacen("{", "{,", 1)),
        ("yaml with a tab", yaml.replace("    token:", "\ttoken:")),
        (
            "yaml with an open quote",
            yaml.replace(SECRET, &format!("\"{SECRET}")),
        ),
        (
            "yaml with a map for a token",
            yaml.replace(SECRET, &format!("{{{SECRET}: x}}")),
        ),
        (
            "yaml with a list for users",
            yaml.replace("users:", &format!("users: {SECRET}\nusers2:")),
        ),
        (
            "a duplicate key",
            yaml.replace("kind: Config", &format!("kind: Config\nkind: {SECRET}")),
        ),
        ("no kubeconfig at all", SECRET.to_owned()),
    ] {
        let error = parse(&text).expect_err(what);
        let damaged_or_wrong = matches!(error.class, Class::Credential | Class::Kubeconfig);
        assert!(damaged_or_wrong, "{what}: {error}");
        assert!(!error.to_string().contains("s3cret"), "{what}: {error}");
        // A field of the wrong type in YAML has no position: it was converted to JSON.
        let located = error.to_string().contains("line ") || error.to_string().contains("wrong type");
        assert!(located, "{what}: {error}");
    }
}

#[test]
fn empty_file_counts_as_missing_credential() {
    for text in ["", " \n\n", "\u{feff}"] {
        assert_eq!(parse(text).unwrap_err().class, Class::Credential, "{text:?}");
    }
}
