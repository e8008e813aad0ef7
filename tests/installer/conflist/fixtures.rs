//! Conflists of real network plugins, before and after, as files; and which file the installer changes.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::{Value, json};

use crate::node::{CALICO, Node, entry, mode, settle};

/// Returns a fixture: `NAME` as the neighbour writes it, `NAME.with` with our entry.
fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/fixtures/conflists")
        .join(name);
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Installs over a neighbour's file, compares with the expected file, and uninstalls.
fn before_and_after(before: &str, after: &str) {
    let node = Node::new().with_network(before, fixture(before));
    let empty = node.snapshot();
    node.succeed(&["once"]);
    let text = fs::read(node.net(after)).unwrap();
    // EVERGREEN_WRITE_FIXTURES=1 updates the expected file. Read the diff before you commit it.
    #[expect(
        clippy::disallowed_methods,
        reason = "an option of the person who runs the test"
    )]
    if std::env::var_os("EVERGREEN_WRITE_FIXTURES").is_some() {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/conflists");
        fs::write(dir.join(format!("{after}.with")), &text).unwrap();
    }
    let shown = String::from_utf8_lossy(&text);
    assert_eq!(
        shown,
        String::from_utf8_lossy(&fixture(&format!("{after}.with"))),
        "{before}"
    );
    let value: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(value["plugins"].as_array().unwrap().last().unwrap(), &entry());
    assert!(
        before == after || !node.net(before).exists(),
        "both files exist: {before}, {after}"
    );
    // The neighbour writes its file again; the entry is restored.
    fs::write(node.net(before), fixture(before)).unwrap();
    node.succeed(&["once"]);
    assert_eq!(
        String::from_utf8_lossy(&fs::read(node.net(after)).unwrap()),
        shown,
        "{before} restored"
    );
    node.succeed(&["uninstall"]);
    assert_eq!(
        node.snapshot(),
        empty,
        "{before} differs from the original\n{}",
        node.show()
    );
}

#[test]
fn calico() {
    before_and_after("10-calico.conflist", "10-calico.conflist");
}

#[test]
fn cilium() {
    before_and_after("05-cilium.conflist", "05-cilium.conflist");
}

#[test]
fn flannel() {
    before_and_after("10-flannel.conflist", "10-flannel.conflist");
}

#[test]
fn kindnet() {
    before_and_after("10-kindnet.conflist", "10-kindnet.conflist");
}

#[test]
fn aws_vpc_cni() {
    before_and_after("10-aws.conflist", "10-aws.conflist");
}

#[test]
fn azure_cni() {
    before_and_after("10-azure.conflist", "10-azure.conflist");
}

#[test]
fn gke() {
    before_and_after("10-gke-ptp.conflist", "10-gke-ptp.conflist");
}

#[test]
fn weave() {
    before_and_after("10-weave.conflist", "10-weave.conflist");
}

#[test]
fn kube_router() {
    before_and_after("10-kuberouter.conflist", "10-kuberouter.conflist");
}

#[test]
fn multus() {
    before_and_after("00-multus.conf", "00-multus.conflist");
}

#[test]
fn canal() {
    before_and_after("10-canal.conflist", "10-canal.conflist");
}

#[test]
fn ovn_kubernetes() {
    before_and_after("10-ovn-kubernetes.conf", "10-ovn-kubernetes.conflist");
}

#[test]
fn single_plugin_becomes_list_and_is_restored() {
    let single = r#"{"cniVersion":"1.0.0","name":"mynet","type":"bridge","ipam":{"type":"host-local"}}"#;
    let node = Node::new().with_network("10-kuberouter.conf", single);
    fs::set_permissions(node.net("10-kuberouter.conf"), fs::Permissions::from_mode(0o640)).unwrap();
    let before = node.snapshot();
    node.succeed(&["once"]);
    let list: Value = serde_json::from_slice(&fs::read(node.net("10-kuberouter.conflist")).unwrap()).unwrap();
    assert_eq!(
        (&list["name"], &list["cniVersion"]),
        (&json!("mynet"), &json!("1.0.0"))
    );
    assert_eq!(mode(&node.net("10-kuberouter.conflist")), 0o640);
    node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before);
}

#[test]
fn single_file_beside_same_named_list_is_restored() {
    let single = r#"{"name":"cilium","type":"cilium-cni"}"#;
    let node = Node::new()
        .with_network("05-cilium.conf", single)
        .with_network("05-cilium.conflist", CALICO);
    let before = node.snapshot();
    node.succeed(&["once"]);
    let mut names: Vec<_> = fs::read_dir(node.net(""))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.retain(|n| n.to_string_lossy().contains("cilium.conf"));
    names.sort();
    // The file that was first in the runtime's order stays first.
    assert_eq!(names, ["05-cilium.conf.conflist", "05-cilium.conflist"]);
    assert!(node.has_entry("05-cilium.conf.conflist") && !node.has_entry("05-cilium.conflist"));
    node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before);
}

#[test]
fn recreated_single_file_is_merged_again() {
    let old = r#"{"cniVersion":"0.3.1","name":"kubernetes","type":"bridge"}"#;
    let new = r#"{"cniVersion":"0.4.0","name":"kubernetes","type":"bridge","mtu":1400}"#;
    let node = Node::new().with_network("10-kuberouter.conf", old);
    let mut installer = node.start_and_wait_for("10-kuberouter.conflist");
    installer.until(&node, "the single file is removed", || {
        !node.net("10-kuberouter.conf").exists()
    });
    fs::write(node.net("10-kuberouter.conf"), new).unwrap();
    installer.until(&node, "the new file is merged into the list", || {
        let text = fs::read_to_string(node.net("10-kuberouter.conflist")).unwrap();
        text.contains("1400") && !node.net("10-kuberouter.conf").exists()
    });
    drop(installer);
    node.succeed(&["uninstall"]);
    assert_eq!(fs::read_to_string(node.net("10-kuberouter.conf")).unwrap(), new);
    assert!(!node.net("10-kuberouter.conflist").exists());
}

#[test]
fn conflist_mode_and_owner_are_kept() {
    let node = Node::new().with_network("05-cilium.conflist", CALICO);
    let path = node.net("05-cilium.conflist");
    for permissions in [0o600, 0o640, 0o644] {
        fs::set_permissions(&path, fs::Permissions::from_mode(permissions)).unwrap();
        std::os::unix::fs::chown(&path, Some(12), Some(34))
            .expect("run as root: a file's owner must be changed");
        for command in ["once", "uninstall"] {
            node.succeed(&[command]);
            let found = fs::metadata(&path).unwrap();
            use std::os::unix::fs::MetadataExt;
            assert_eq!(
                (mode(&path), found.uid(), found.gid()),
                (permissions, 12, 34),
                "{command}"
            );
        }
    }
}

#[test]
fn only_the_active_network_gets_entry() {
    let loopback = r#"{"cniVersion":"0.3.1","name":"lo","type":"loopback"}"#;
    let node = Node::new()
        .with_network("00-loopback.conf", loopback)
        .with_network("10-calico.conflist", CALICO)
        .with_network("87-podman-bridge.conflist", CALICO);
    node.succeed(&["once"]);
    assert!(node.has_entry("10-calico.conflist"));
    assert_eq!(
        fs::read_to_string(node.net("00-loopback.conf")).unwrap(),
        loopback
    );
    assert_eq!(
        fs::read_to_string(node.net("87-podman-bridge.conflist")).unwrap(),
        CALICO
    );

    // The entry moves to a network that sorts first.
    fs::write(node.net("05-other.conflist"), CALICO).unwrap();
    node.succeed(&["once"]);
    assert!(node.has_entry("05-other.conflist"));
    assert_eq!(
        fs::read_to_string(node.net("10-calico.conflist")).unwrap(),
        CALICO
    );
}

#[test]
fn named_network_or_all_networks_get_entry() {
    let node = Node::new()
        .with_network("10-a.conflist", CALICO)
        .with_network("20-b.conflist", CALICO);
    node.succeed(&["once", "--conflist", "20-b.conflist"]);
    assert!(!node.has_entry("10-a.conflist") && node.has_entry("20-b.conflist"));
    node.succeed(&["once", "--conflist", "all"]);
    assert!(node.has_entry("10-a.conflist") && node.has_entry("20-b.conflist"));
    node.fail(
        &["once", "--conflist", "30-c.conflist"],
        &["30-c.conflist", "waiting for it"],
    );
}

#[test]
fn stale_entry_of_old_release_is_replaced() {
    let stale = r#"{"name":"cilium","plugins":[{"type":"cilium-cni"},{"type":"linkerd-cni","policy":{"k8s_auth_token":"dead"}}]}"#;
    let node = Node::new()
        .with_network("05-cilium.conflist", stale)
        .with_network("ZZZ-linkerd-cni-kubeconfig", "dead");
    node.succeed(&["once"]);
    let text = fs::read_to_string(node.net("05-cilium.conflist")).unwrap();
    assert!(
        node.has_entry("05-cilium.conflist") && !text.contains("dead"),
        "{text}"
    );
    assert!(
        !fs::read_to_string(node.net("ZZZ-linkerd-cni-kubeconfig"))
            .unwrap()
            .contains("dead")
    );
    // A network with nothing but a stale entry breaks a node, so it is removed.
    let alone = r#"{"name":"linkerd-cni","type":"linkerd-cni"}"#;
    let node = Node::new()
        .with_network("01-linkerd-cni.conf", alone)
        .with_network("10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    assert!(
        node.has_entry("10-calico.conflist") && !node.net("01-linkerd-cni.conf").exists(),
        "{}",
        node.show()
    );
}

#[test]
fn unrecoverable_list_does_not_block_other_network() {
    let node = Node::new()
        .with_network("05-broken.conflist", "{")
        .with_network("10-calico.conflist", CALICO);
    settle(&node.net("05-broken.conflist"));
    // The copy of the original is unreadable.
    let copy = "linkerd-cni.evergreen/05-broken.conflist.from.05-broken.conf";
    fs::create_dir_all(node.net(copy)).unwrap();
    let output = node.run(&["once"]);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        node.has_entry("10-calico.conflist") && log.contains("read the copy of the original"),
        "{log}\n{}",
        node.show()
    );
}
