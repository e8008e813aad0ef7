//! `evergreen-install uninstall`, and SIGTERM with removal configured.

use std::{fs, thread, time::Duration};

use crate::node::{CALICO, Node, settle};

#[test]
fn sigterm_restores_directories_exactly() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("EVERGREEN_ON_TERM", "remove");
    let before = node.snapshot();
    let installer = node.start_and_wait_for("10-calico.conflist");
    let (status, log) = installer.end();
    assert!(status.success(), "{log}");
    assert_eq!(node.snapshot(), before, "{}", node.show());
}

#[test]
fn sigterm_during_start_leaves_clean_node() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with_network("00-bad.conflist", "{")
        .with("EVERGREEN_ON_TERM", "remove");
    let before = node.snapshot();
    for delay in (0..30).map(Duration::from_millis) {
        let installer = node.start();
        thread::sleep(delay);
        let (status, log) = installer.end();
        // Before the first instruction the signal's default action applies, and nothing has changed.
        assert!(status.success() || log.is_empty(), "{status} {log}");
        assert_eq!(node.snapshot(), before, "after {delay:?}: {log}\n{}", node.show());
    }
}

#[test]
fn sigterm_twice_removes_once_and_completely() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("EVERGREEN_ON_TERM", "remove");
    let before = node.snapshot();
    let mut installer = node.start_and_wait_for("10-calico.conflist");
    installer.signal("-TERM");
    installer.signal("-TERM");
    let (status, log) = installer.ended();
    assert!(status.success(), "{log}");
    assert_eq!(node.snapshot(), before);
}

#[test]
fn uninstall_after_sigkill_cleans_node() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with_network("05-x.conf", "{\"name\":\"x\",\"type\":\"y\"}");
    let before = node.snapshot();
    let mut installer = node.start_and_wait_for("05-x.conflist");
    installer.signal("-KILL");
    installer.ended();
    node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before, "{}", node.show());
    assert_eq!(node.succeed(&["uninstall"]), "", "a second one finds nothing");
}

#[test]
fn uninstall_needs_only_the_directories() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let before = node.snapshot();
    node.succeed(&["once"]);
    let node = node
        .without("CNI_NETWORK_CONFIG")
        .without("KUBERNETES_SERVICE_HOST")
        .without("CONTAINER_CNI_BIN_DIR");
    node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before, "{}", node.show());
}

#[test]
fn neighbours_changes_survive_removal() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    let path = node.net("10-calico.conflist");
    let changed = fs::read_to_string(&path)
        .unwrap()
        .replace("k8s-pod-network", "renamed");
    fs::write(&path, changed).unwrap();
    node.succeed(&["uninstall"]);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        CALICO.replace("k8s-pod-network", "renamed")
    );
}

#[test]
fn invalid_neighbour_does_not_block_removal() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    fs::write(node.net("05-bad.conflist"), "").unwrap();
    fs::write(node.net("99-bad.conf"), "[ini]").unwrap();
    node.succeed(&["uninstall"]);
    assert_eq!(
        fs::read_to_string(node.net("10-calico.conflist")).unwrap(),
        CALICO
    );
    assert!(!node.bin("linkerd-cni").exists());
}

#[test]
fn releases_with_different_names_do_not_interfere() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    let one = node.snapshot();
    let other = r#"{"type":"mesh-b","kubernetes":{"kubeconfig":"__KUBECONFIG_FILEPATH__"}}"#;
    let flags = ["--cni-network-config", other, "--kubeconfig-file-name", "ZZZ-b"];
    node.succeed(&[&["once"], &flags[..]].concat());
    assert!(
        fs::read_to_string(node.net("10-calico.conflist"))
            .unwrap()
            .contains("mesh-b")
    );
    node.succeed(&[&["uninstall"], &flags[..]].concat());
    assert_eq!(node.snapshot(), one, "{}", node.show());
}

#[test]
fn plugin_can_stay_for_running_pods() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("EVERGREEN_KEEP_BINARY", "true");
    node.succeed(&["once"]);
    node.succeed(&["uninstall"]);
    assert_eq!(
        fs::read_to_string(node.net("10-calico.conflist")).unwrap(),
        CALICO
    );
    assert!(node.bin("linkerd-cni").exists() && !node.net("linkerd-cni.evergreen").exists());
}

const SINGLE: &str = r#"{"cniVersion":"0.3.1","name":"k8s-pod-network","type":"calico"}"#;

#[test]
fn removal_replaces_damaged_list_by_single_file() {
    let node = Node::new().with_network("10-calico.conf", SINGLE);
    let before = node.snapshot();
    node.succeed(&["once"]);
    fs::write(node.net("10-calico.conflist"), "").unwrap();
    settle(&node.net("10-calico.conflist"));
    let log = node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before, "{log}\n{}", node.show());
}

#[test]
fn removal_restores_single_file_without_entry_too() {
    let node = Node::new().with_network("10-calico.conf", SINGLE);
    let before = node.snapshot();
    node.succeed(&["once"]);
    let theirs = format!(r#"{{"cniVersion":"0.3.1","name":"k8s-pod-network","plugins":[{SINGLE}]}}"#);
    fs::write(node.net("10-calico.conflist"), theirs).unwrap();
    let log = node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before, "{log}\n{}", node.show());
}

#[test]
fn unreadable_network_keeps_plugin() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    let path = node.net("10-calico.conflist");
    let whole = fs::read(&path).unwrap();
    // Longer than the installer reads, but a runtime would load it.
    fs::write(&path, [&whole[..], &vec![b' '; 33 << 20]].concat()).unwrap();
    settle(&path);
    node.fail(&["uninstall"], &["10-calico.conflist"]);
    assert!(node.bin("linkerd-cni").exists());
    fs::write(&path, whole).unwrap();
    node.succeed(&["uninstall"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), CALICO);
    assert!(!node.bin("linkerd-cni").exists());
}
