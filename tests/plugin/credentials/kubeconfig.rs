//! Kubeconfig forms that lead to the API server, and errors that name the file and what to do.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use evergreen_kube::Class;
use serde_json::json;

use crate::node::{ACCOUNT, Node, open};

#[test]
fn installers_kubeconfig_needs_one_request() {
    let node = Node::new();
    let pod = node.ask().unwrap();
    assert_eq!(pod.containers[0].name, "linkerd-proxy");
    let seen = node.api.requests();
    assert_eq!((seen.len(), node.api.connections()), (1, 1), "{seen:#?}");
    assert_eq!(seen[0].user.as_deref(), Some(ACCOUNT));
    assert!(
        seen[0].query.starts_with("resourceVersion=0&timeout="),
        "{seen:#?}"
    );
    assert!(
        seen[0]
            .header("user-agent")
            .unwrap()
            .starts_with("evergreen-cni/"),
        "{seen:#?}"
    );
    assert_eq!(seen[0].header("accept"), Some("application/json"));
    assert_eq!(seen[0].header("accept-encoding"), None);
}

#[test]
fn later_requests_reuse_the_connection() {
    let node = Node::new();
    node.api
        .put_namespace("shop", json!({"config.linkerd.io/proxy-uid": "7"}));
    let service = json!({"kind": "Service", "apiVersion": "v1", "spec": {"ports": [{"port": 443, "targetPort": 6443}]}});
    node.api
        .put("/api/v1/namespaces/default/services/kubernetes", service);
    let mut client = node.client(Duration::from_secs(10)).unwrap();
    client.pod("shop", "web-0", None).unwrap();
    assert_eq!(
        client.namespace("shop").unwrap().annotations["config.linkerd.io/proxy-uid"],
        "7"
    );
    assert_eq!(client.api_service_ports().unwrap(), [443, 6443]);
    assert_eq!((node.api.requests().len(), node.api.connections()), (3, 1));
}

#[test]
fn every_server_address_form_works() {
    let node = Node::new();
    let port = node.api.address().port();
    let v6 = node.api.url_v6();
    let v6_port = v6.rsplit_once(':').unwrap().1;
    for server in [
        node.api.url(),
        format!("{}/", node.api.url()),
        format!("127.0.0.1:{port}"),
        format!("https://localhost:{port}"),
        v6.clone(),
        format!("https://::1:{v6_port}"),
    ] {
        let cluster = json!({"server": server, "certificate-authority": node.path("ca.crt")});
        node.write_kubeconfig(&node.with_cluster(cluster));
        node.ask().unwrap_or_else(|e| panic!("{server}: {e}"));
    }
}

#[test]
fn tls_server_name_replaces_the_address() {
    let node = Node::new();
    let by_name = node
        .pki
        .ca
        .server_for(&["api.example.org"], evergreen_test_support::pki::CURRENT);
    node.api.use_certificate(&by_name, node.pki.ca.pem());
    let error = node.ask_within(Duration::from_secs(2)).unwrap_err();
    assert_eq!(error.class, Class::Trust);
    assert!(
        error
            .to_string()
            .contains("set tls-server-name in the kubeconfig"),
        "{error}"
    );
    let mut cluster = json!({"server": node.api.url(), "certificate-authority": "ca.crt"});
    cluster["tls-server-name"] = "api.example.org".into();
    node.write_kubeconfig(&node.with_cluster(cluster));
    node.ask().unwrap();
}

#[test]
fn insecure_skip_tls_verify_skips_verification() {
    let node = Node::new();
    node.api.use_certificate(
        &node
            .pki
            .second
            .server_for(&["x"], evergreen_test_support::pki::EXPIRED),
        "",
    );
    node.write_kubeconfig(
        &node.with_cluster(json!({"server": node.api.url(), "insecure-skip-tls-verify": true})),
    );
    node.ask().unwrap();
}

#[test]
fn inline_authority_data_is_used() {
    let node = Node::new();
    let data = STANDARD.encode(node.pki.ca.pem());
    node.write_kubeconfig(
        &node.with_cluster(json!({"server": node.api.url(), "certificate-authority-data": data})),
    );
    node.ask().unwrap();
}

#[test]
fn impersonation_headers_are_sent() {
    let node = Node::new();
    let user = json!({"tokenFile": "token", "as": "jane", "as-groups": ["dev", "ops"], "as-user-extra": {"s": ["v"]}});
    node.write_kubeconfig(&node.with_user(user));
    node.ask().unwrap();
    let seen = &node.api.requests()[0];
    let sent: Vec<_> = seen
        .headers
        .iter()
        .filter(|(n, _)| n.starts_with("impersonate"))
        .cloned()
        .collect();
    let header = |n: &str, v: &str| (n.to_owned(), v.to_owned());
    assert_eq!(
        sent,
        [
            header("impersonate-user", "jane"),
            header("impersonate-group", "dev"),
            header("impersonate-group", "ops"),
            header("impersonate-extra-s", "v"),
        ]
    );
}

#[test]
fn unreadable_kubeconfig_is_named_with_a_cure() {
    let node = Node::new();
    let path = node.path("kubeconfig");
    let says = |what: &str, class: Class, cure: &str| {
        let error = match open(&path, Duration::from_secs(2)) {
            Ok(_) => panic!("{what}: expected a failure"),
            Err(error) => error,
        };
        assert_eq!(error.class, class, "{what}: {error}");
        let error = error.to_string();
        assert!(error.contains(path.to_str().unwrap()), "{what}: {error}");
        assert!(error.contains(cure), "{what}: {error}");
        error
    };
    fs::remove_file(&path).unwrap();
    says(
        "missing",
        Class::Credential,
        "does not exist; the installer writes this file",
    );
    fs::create_dir(&path).unwrap();
    says("a directory", Class::Credential, "is a directory");
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "").unwrap();
    says(
        "empty",
        Class::Credential,
        "is empty; the installer writes this file",
    );
    fs::write(&path, b"\xff\xfe").unwrap();
    says("not text", Class::Credential, "is not UTF-8 text");
    let mut two = node.kubeconfig();
    two["contexts"][0]["name"] = "a".into();
    two["clusters"] = json!([{"name": "a", "cluster": {}}, {"name": "b", "cluster": {}}]);
    two["current-context"] = json!(null);
    fs::write(&path, two.to_string()).unwrap();
    says(
        "two clusters and no current context",
        Class::Credential,
        "set current-context to one of: \"a\"",
    );
}

#[test]
fn named_pipe_as_kubeconfig_does_not_block() {
    let node = Node::new();
    fs::remove_file(node.path("kubeconfig")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(node.path("kubeconfig"))
        .status()
        .unwrap();
    assert!(made.success());
    let error = node.ask_within(Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn forbidden_kubeconfig_is_named() {
    // Root can read every regular file, so the test uses /proc/self/mem, which cannot be read at offset 0.
    let error = match open("/proc/self/mem".as_ref(), Duration::from_secs(1)) {
        Ok(_) => panic!("expected a failure"),
        Err(error) => error,
    };
    assert_eq!(error.class, Class::Credential);
    assert!(
        error
            .to_string()
            .contains("kubeconfig /proc/self/mem cannot be read"),
        "{error}"
    );
    let node = Node::new();
    fs::set_permissions(node.path("kubeconfig"), fs::Permissions::from_mode(0o000)).unwrap();
    node.ask().unwrap();
}
