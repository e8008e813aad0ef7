use std::path::Path;

use serde_json::{Value, json};

use super::*;

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

/// Each with what the message must say. None may repeat the secret.
fn bad() -> Vec<(&'static str, Value, &'static str)> {
    let user = |user: Value| config(good_cluster(), user);
    let cluster = |cluster: Value| config(cluster, good_user());
    let exec = |exec: Value| user(json!({"exec": exec}));
    let v1 = "client.authentication.k8s.io/v1";
    let with = |key: &str, value: Value| {
        let mut config = config(good_cluster(), good_user());
        config[key] = value;
        config
    };
    vec![
        (
            "a pod",
            json!({"kind": "Pod", "apiVersion": "v1"}),
            "is a \"Pod\", not a kubeconfig",
        ),
        (
            "nothing in it",
            json!({}),
            "says no current-context and has no context \"linkerd-cni-context\"",
        ),
        (
            "a context that is not there",
            json!({"current-context": "x"}),
            "current-context is \"x\", which is not among",
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
            "names no cluster; there are: \"local\"",
        ),
        (
            "a context without a user",
            with(
                "contexts",
                json!([{"name": "linkerd-cni-context", "context": {"cluster": "local"}}]),
            ),
            "names no user; there are: \"linkerd-cni\"",
        ),
        (
            "a cluster that is not there",
            with("clusters", Value::Null),
            "names the cluster \"local\", which does not exist; there are: (none)",
        ),
        (
            "a user that is not there",
            with("users", json!([])),
            "names the user \"linkerd-cni\", which does not exist",
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
            "a user without a credential",
            user(json!({})),
            "user \"linkerd-cni\": holds no credential",
        ),
        (
            "a user that is null",
            with("users", json!([{"name": "linkerd-cni", "user": null}])),
            "user \"linkerd-cni\" is empty",
        ),
        (
            "a list where a map belongs",
            with("clusters", json!({"local": SECRET})),
            "has a field of another type",
        ),
        (
            "a token that is a map",
            user(json!({"token": {"a": SECRET}})),
            "has a field of another type",
        ),
        (
            "users that are a string",
            with("users", json!(SECRET)),
            "has a field of another type",
        ),
        (
            "no server",
            cluster(json!({"certificate-authority": "ca.crt"})),
            "cluster \"local\": has no server",
        ),
        (
            "a server that is none",
            cluster(json!({"server": "ftp://x"})),
            "neither an https:// nor an http:// URL",
        ),
        (
            "both authorities",
            cluster(
                json!({"server": "https://x", "certificate-authority": "a", "certificate-authority-data": "YQ=="}),
            ),
            "certificate-authority and certificate-authority-data are both set",
        ),
        (
            "an authority that is not looked at",
            cluster(
                json!({"server": "https://x", "certificate-authority": "a", "insecure-skip-tls-verify": true}),
            ),
            "insecure-skip-tls-verify is set beside a certificate-authority",
        ),
        (
            "data that is not base64",
            cluster(json!({"server": "https://x", "certificate-authority-data": "s3cret-t0ken!"})),
            "certificate-authority-data is not base64",
        ),
        (
            "a proxy of another kind",
            cluster(json!({"server": "https://x", "proxy-url": "ftp://u:s3cret-t0ken@p"})),
            "proxy-url is not a URL of http://, https:// or socks5://",
        ),
        (
            "a proxy without a scheme",
            cluster(json!({"server": "https://x", "proxy-url": "p:3128"})),
            "proxy-url is not a URL",
        ),
        (
            "a password",
            user(json!({"username": "admin", "password": SECRET})),
            "since Kubernetes 1.19",
        ),
        (
            "an auth provider",
            user(json!({"auth-provider": {"name": "gcp", "config": {"access-token": SECRET}}})),
            "auth-provider is not supported",
        ),
        (
            "a certificate without a key",
            user(json!({"client-certificate": "c"})),
            "no client-key; add the key",
        ),
        (
            "a key without a certificate",
            user(json!({"client-key-data": "YQ=="})),
            "no client-certificate; add the certificate",
        ),
        (
            "a key twice",
            user(json!({"client-certificate": "c", "client-key": "k", "client-key-data": "YQ=="})),
            "client-key and client-key-data are both set",
        ),
        (
            "groups without a user to act as",
            user(json!({"tokenFile": "t", "as-groups": ["g"]})),
            "need as, the user to act as",
        ),
        (
            "a uid without a user to act as",
            user(json!({"tokenFile": "t", "as-uid": "1"})),
            "need as, the user to act as",
        ),
        (
            "a header that is none",
            user(json!({"tokenFile": "t", "as": "a\nb"})),
            "holds a control character",
        ),
        (
            "an exec of another version",
            exec(json!({"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "c"})),
            "exec: apiVersion is",
        ),
        (
            "an exec of v1 without a mode",
            exec(json!({"apiVersion": v1, "command": "c"})),
            "exec: interactiveMode is missing; write Never",
        ),
        (
            "an exec that wants a terminal",
            exec(json!({"apiVersion": v1, "command": "c", "interactiveMode": "Always"})),
            "there is no terminal here",
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
fn a_bad_kubeconfig_is_refused_with_a_reason_and_without_a_secret() {
    for (what, config, says) in bad() {
        let error = parse(&config.to_string()).expect_err(what);
        assert_eq!(error.class, Class::Kubeconfig, "{what}: {error}");
        let error = error.to_string();
        assert!(error.contains(says), "{what}: {error}");
        assert!(!error.contains(SECRET), "{what}: {error}");
        assert!(!error.contains('\n'), "{what}: {error}");
    }
}

#[test]
fn text_that_cannot_be_read_is_placed_and_not_quoted() {
    let cut = |text: &str| text[..text.len() - 30].to_owned();
    let json = config(good_cluster(), json!({"token": SECRET})).to_string();
    let yaml = YAML.replace("tokenFile: token", &format!("token: {SECRET}"));
    for (what, text) in [
        ("json cut off", cut(&json)),
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
            "a twice given key",
            yaml.replace("kind: Config", &format!("kind: Config\nkind: {SECRET}")),
        ),
        ("no kubeconfig at all", SECRET.to_owned()),
    ] {
        let error = parse(&text).expect_err(what);
        let damaged_or_wrong = matches!(error.class, Class::Credential | Class::Kubeconfig);
        assert!(damaged_or_wrong, "{what}: {error}");
        assert!(!error.to_string().contains("s3cret"), "{what}: {error}");
        // A field of a wrong type in YAML has no place any more: it was read by way of JSON.
        let placed = error.to_string().contains("line ") || error.to_string().contains("another type");
        assert!(placed, "{what}: {error}");
    }
}

#[test]
fn an_empty_file_is_what_a_power_cut_leaves() {
    for text in ["", " \n\n", "\u{feff}"] {
        assert_eq!(parse(text).unwrap_err().class, Class::Credential, "{text:?}");
    }
}
