//! Token, CA and kubeconfig on the node.

use std::{fs, os::unix::fs::PermissionsExt};

use evergreen_test_support::pki::Pki;
use serde_json::Value;

use crate::node::{CA, CALICO, Node, mode};

#[test]
fn kubeconfig_is_static_with_node_paths() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        .without("KUBERNETES_SERVICE_PORT");
    node.succeed(&["once"]);
    let kubeconfig: Value =
        serde_json::from_slice(&fs::read(node.net("ZZZ-linkerd-cni-kubeconfig")).unwrap()).unwrap();
    assert_eq!(kubeconfig["current-context"], "linkerd-cni-context");
    assert_eq!(kubeconfig["contexts"][0]["context"]["cluster"], "local");
    assert_eq!(kubeconfig["contexts"][0]["context"]["user"], "linkerd-cni");
    assert_eq!(
        kubeconfig["clusters"][0]["cluster"]["server"],
        "https://10.96.0.1:443"
    );
    let ca = kubeconfig["clusters"][0]["cluster"]["certificate-authority"]
        .as_str()
        .unwrap();
    let token = kubeconfig["users"][0]["user"]["tokenFile"].as_str().unwrap();
    assert!(
        ca.starts_with("/etc/cni/net.d/") && token.starts_with("/etc/cni/net.d/"),
        "{kubeconfig:#}"
    );
    let here = |host: &str| node.path("host").join(host.trim_start_matches('/'));
    assert_eq!(fs::read_to_string(here(token)).unwrap(), "token-1");
    assert_eq!(fs::read_to_string(here(ca)).unwrap(), CA);
    assert!(!kubeconfig.to_string().contains("token-1"));
}

#[test]
fn secrets_are_readable_by_root_only() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let kubeconfig = node.net("ZZZ-linkerd-cni-kubeconfig");
    fs::write(&kubeconfig, "old").unwrap();
    fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o644)).unwrap();
    node.succeed(&["once"]);
    assert_eq!(mode(&kubeconfig), 0o600);
    assert_eq!(mode(&node.net("linkerd-cni.evergreen")), 0o700);
    for file in ["token", "ca.crt"] {
        assert_eq!(
            mode(&node.net("linkerd-cni.evergreen").join(file)),
            0o600,
            "{file}"
        );
    }
}

#[test]
fn ipv6_api_server_is_bracketed() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("KUBERNETES_SERVICE_HOST", "fd00:10:96::1")
        .without("KUBERNETES_SERVICE_PORT");
    node.succeed(&["once"]);
    let text = fs::read_to_string(node.net("ZZZ-linkerd-cni-kubeconfig")).unwrap();
    assert!(text.contains("\"https://[fd00:10:96::1]:443\""), "{text}");
}

#[test]
fn token_newline_is_trimmed() {
    let mut node = Node::new().with_network("10-calico.conflist", CALICO);
    node.rotate("token-2\n", CA);
    node.succeed(&["once"]);
    assert_eq!(
        fs::read(node.net("linkerd-cni.evergreen/token")).unwrap(),
        b"token-2"
    );
}

#[test]
fn credentials_are_written_before_conflist() {
    let mut node = Node::new();
    for name in ["10-calico.conflist", "20-b.conflist", "30-c.conflist"] {
        fs::write(node.net(name), CALICO).unwrap();
    }
    node.rotate("token-1", "");
    node.fail(&["once"], &["no good certificate in the CA bundle"]);
    for name in ["10-calico.conflist", "20-b.conflist", "30-c.conflist"] {
        assert_eq!(fs::read_to_string(node.net(name)).unwrap(), CALICO);
    }
}

#[test]
fn separate_ca_file_is_used() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    fs::write(node.path("other.crt"), format!("{CA}{CA}")).unwrap();
    let other = node.path("other.crt");
    node.succeed(&["once", "--kube-ca-file", other.to_str().unwrap()]);
    assert_eq!(
        fs::read_to_string(node.net("linkerd-cni.evergreen/ca.crt")).unwrap(),
        format!("{CA}{CA}")
    );
}

const BAD: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

#[test]
fn bad_certificates_are_counted_and_never_replace_good() {
    let pki = Pki::new();
    let good = pki.ca.pem();
    let mut node = Node::new().with_network("10-calico.conflist", CALICO);
    node.rotate("token-1", &format!("{BAD}{good}"));
    let log = node.succeed(&["once"]);
    assert!(
        log.contains("1 blocks of the CA bundle are no certificates"),
        "{log}"
    );
    assert!(
        log.contains("action=added subject=evergreen-test-ca-1 ") && log.contains("sha256:"),
        "{log}"
    );
    let ca = node.net("linkerd-cni.evergreen/ca.crt");
    assert_eq!(fs::read_to_string(&ca).unwrap(), format!("{BAD}{good}"));
    for bad in ["", "garbage", BAD] {
        node.rotate("token-1", bad);
        let log = node.succeed(&["once"]);
        assert!(log.contains("no good certificate"), "{log}");
        assert_eq!(
            fs::read_to_string(&ca).unwrap(),
            format!("{BAD}{good}"),
            "{bad:?}"
        );
    }
}

#[test]
fn second_ca_bundle_is_joined_and_followed() {
    let pki = Pki::new();
    let mut node = Node::new().with_network("10-calico.conflist", CALICO);
    node.rotate("token-1", pki.ca.pem());
    let extra = node.path("extra.crt");
    fs::write(&extra, pki.second.pem()).unwrap();
    let node = node.with("EVERGREEN_EXTRA_CA_FILE", extra.to_str().unwrap());
    let mut installer = node.start_and_wait_for("10-calico.conflist");
    let on_node = || fs::read_to_string(node.net("linkerd-cni.evergreen/ca.crt")).unwrap();
    let count = || on_node().matches("BEGIN CERTIFICATE").count();
    assert_eq!(count(), 2, "{}", on_node());
    fs::write(&extra, format!("{}{}", pki.second.pem(), pki.ca.pem())).unwrap();
    fs::write(&extra, Pki::new().second.pem()).unwrap();
    installer.until(&node, "the removal is logged", || {
        node.logs_contain("action=removed subject=evergreen-test-ca-2")
    });
    // The installer may have read the file while it was empty.
    installer.until(&node, "both certificates are on the node", || count() == 2);
}
