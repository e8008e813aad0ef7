//! Exec credential plugins: run on every call, limited in time and output, and kept out of the reply.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use evergreen_kube::Class;
use evergreen_test_support::budget::within;
use serde_json::{Value, json};

use crate::node::Node;

const V1: &str = "client.authentication.k8s.io/v1";

/// Writes an executable shell script.
pub(crate) fn write_script(path: &Path, script: &str) {
    // Written by another process: if this one held the file open for writing while another test forks, the kernel would
    // refuse to run it (ETXTBSY).
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("start sh");
    let mut pipe = writer.stdin.take().expect("a pipe");
    write!(pipe, "#!/bin/sh\n{script}\n").expect("write the script");
    drop(pipe);
    assert!(writer.wait().expect("wait for sh").success());
}

/// Writes a shell script and a kubeconfig that names it as exec plugin, with additional keys in its exec block.
fn plugin(node: &Node, script: &str, more: Value) {
    write_script(&node.path("plugin"), script);
    let mut exec = json!({"apiVersion": V1, "interactiveMode": "Never", "command": "./plugin"});
    for (key, value) in more.as_object().expect("an object") {
        exec[key] = value.clone();
    }
    node.write_kubeconfig(&node.with_user(json!({"exec": exec})));
}

/// A script that prints a credential.
fn prints(version: &str, status: Value) -> String {
    let credential = json!({"apiVersion": version, "kind": "ExecCredential", "status": status});
    format!("cat <<'END'\n{credential}\nEND")
}

#[test]
fn plugin_runs_on_every_call() {
    let node = Node::new();
    let token = fs::read_to_string(node.path("token")).unwrap();
    for (version, more) in [
        (V1, json!({})),
        (
            "client.authentication.k8s.io/v1beta1",
            json!({"apiVersion": "client.authentication.k8s.io/v1beta1", "interactiveMode": ""}),
        ),
    ] {
        let script = format!(
            "echo x >> runs\n{}",
            prints(
                version,
                json!({"token": token, "expirationTimestamp": "2099-01-01T00:00:00Z"})
            )
        );
        plugin(&node, &format!("cd {}\n{script}", node.dir.display()), more);
        node.ask().unwrap_or_else(|e| panic!("{version}: {e}"));
    }
    assert_eq!(fs::read_to_string(node.path("runs")).unwrap().lines().count(), 2);
}

#[test]
fn certificate_is_accepted_instead_of_a_token() {
    let node = Node::new();
    let pair = node.pki.ca.client("system:node:node1", &[]);
    node.api.accept_certificate(&pair, "system:node:node1");
    let status = json!({"clientCertificateData": pair.certificate, "clientKeyData": pair.key});
    plugin(&node, &prints(V1, status), json!({}));
    node.ask().unwrap();
    assert_eq!(node.api.requests()[0].user.as_deref(), Some("system:node:node1"));
}

#[test]
fn plugin_gets_arguments_variables_and_cluster() {
    let node = Node::new();
    let token = fs::read_to_string(node.path("token")).unwrap();
    let script = format!(
        "cat > {0}/stdin\necho \"$@\" > {0}/args\necho \"$FLAVOUR\" > {0}/flavour\nprintf %s \"$KUBERNETES_EXEC_INFO\" > {0}/info\n{1}",
        node.dir.display(),
        prints(V1, json!({"token": token}))
    );
    let more = json!({"args": ["get", "a token"], "env": [{"name": "FLAVOUR", "value": "plain"}], "provideClusterInfo": true});
    plugin(&node, &script, more);
    let mut config: Value = serde_json::from_slice(&fs::read(node.path("kubeconfig")).unwrap()).unwrap();
    config["clusters"][0]["cluster"]["extensions"] =
        json!([{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "here"}}]);
    node.write_kubeconfig(&config);
    node.ask().unwrap();
    let read = |name: &str| fs::read_to_string(node.path(name)).unwrap();
    assert_eq!(
        (
            read("stdin").as_str(),
            read("args").as_str(),
            read("flavour").as_str()
        ),
        ("", "get a token\n", "plain\n")
    );
    let info: Value = serde_json::from_str(&read("info")).unwrap();
    let cluster = json!({"server": node.api.url(), "certificate-authority-data": STANDARD.encode(node.pki.ca.pem()),
        "config": {"audience": "here"}});
    assert_eq!(
        info,
        json!({"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": false, "cluster": cluster}})
    );
}

#[test]
fn rejected_token_reruns_the_plugin_once() {
    let node = Node::new();
    let good = node.rotate();
    let (dir, bad) = (node.dir.display(), prints(V1, json!({"token": "dead"})));
    let script = format!(
        "if [ -e {dir}/ran ]; then\n{}\nelse\ntouch {dir}/ran\n{bad}\nfi",
        prints(V1, json!({"token": good}))
    );
    plugin(&node, &script, json!({}));
    node.ask().unwrap();
    assert_eq!(
        node.api.requests().iter().map(|r| r.status).collect::<Vec<_>>(),
        [401, 200]
    );
}

#[test]
fn hanging_plugin_is_killed_with_its_children() {
    let node = Node::new();
    let pids = node.path("pids");
    plugin(
        &node,
        &format!("sleep 300 &\necho $! > {}\nwait", pids.display()),
        json!({}),
    );
    let start = Instant::now();
    let error = node.ask_within(Duration::from_secs(1)).unwrap_err();
    let took = start.elapsed();
    assert!(took < within(Duration::from_millis(800)), "{took:?}: {error}");
    assert!(
        error.to_string().contains("it timed out and was killed"),
        "{error}"
    );
    let child = fs::read_to_string(pids).unwrap();
    // The child was sent a signal; the kernel may take a moment to end it.
    let start = Instant::now();
    loop {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            break;
        }
        assert!(
            start.elapsed() < within(Duration::from_secs(10)),
            "the plugin's child still runs: {stat}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn long_stderr_does_not_lose_the_credential() {
    let node = Node::new();
    let token = fs::read_to_string(node.path("token")).unwrap();
    // Before and after it prints the credential.
    for (before, after) in [
        ("head -c 1048576 /dev/zero >&2", ""),
        ("", "head -c 1048576 /dev/zero >&2"),
    ] {
        let prints = prints(V1, json!({"token": token}));
        plugin(&node, &format!("set -e\n{before}\n{prints}\n{after}"), json!({}));
        node.ask().unwrap_or_else(|e| panic!("{before}{after}: {e}"));
    }
}

#[test]
fn failing_plugin_is_named_but_not_quoted() {
    let node = Node::new();
    let secret = "s3cret-t0ken";
    let status = |status: Value| prints(V1, status);
    for (what, script, says) in [
        (
            "fails",
            format!("echo {secret}; echo {secret} >&2; exit 3"),
            "it failed (exit status: 3)",
        ),
        ("prints nothing", "true".to_owned(), "it wrote nothing to stdout"),
        (
            "prints something else",
            format!("echo {secret}"),
            "is not an ExecCredential (line 1",
        ),
        (
            "prints json",
            format!("echo '{{\"token\":\"{secret}\"}}'"),
            "is not of kind ExecCredential",
        ),
        (
            "another version",
            prints("client.authentication.k8s.io/v1beta1", json!({"token": secret})),
            "not in the requested apiVersion",
        ),
        (
            "nothing inside",
            status(json!({})),
            "neither a token nor a certificate",
        ),
        (
            "half a pair",
            status(json!({"clientCertificateData": secret})),
            "a certificate or a key without the other",
        ),
        (
            "an old one",
            status(json!({"token": secret, "expirationTimestamp": "2020-01-01T00:00:00Z"})),
            "expired at 2020-01-01T00:00:00Z",
        ),
        (
            "no time",
            status(json!({"token": secret, "expirationTimestamp": secret})),
            "expirationTimestamp is not a valid time",
        ),
        (
            "two lines",
            status(json!({"token": "s3cret-t0ken\nx"})),
            "is malformed",
        ),
        (
            "too much",
            format!("yes {secret} | head -c 2000000"),
            "its output exceeds 1 MiB",
        ),
    ] {
        plugin(&node, &script, json!({}));
        let error = node.ask().expect_err(what);
        assert_eq!(error.class, Class::Credential, "{what}: {error}");
        let error = error.to_string();
        assert!(error.contains(says), "{what}: {error}");
        assert!(
            error.contains(node.path("plugin").to_str().unwrap().rsplit('/').next().unwrap()),
            "{what}: {error}"
        );
        assert!(!error.contains(secret), "{what}: {error}");
    }
}

#[test]
fn missing_plugin_is_reported_with_its_hint() {
    let node = Node::new();
    plugin(
        &node,
        "true",
        json!({"command": "evergreen-no-such-program", "installHint": "dnf install\n it"}),
    );
    let error = node.ask().unwrap_err().to_string();
    assert!(
        error.contains("evergreen-no-such-program cannot be run") && error.contains("dnf install it"),
        "{error}"
    );
    plugin(&node, "true", json!({}));
    fs::set_permissions(node.path("plugin"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = node.ask().unwrap_err().to_string();
    assert!(error.contains("make it executable"), "{error}");
}
