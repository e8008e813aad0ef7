//! Networks that are symlinks to read-only places, as node images make them. Their targets are never written.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use crate::{
    cluster::{Cluster, get},
    node::{CALICO, Node, mode, settle},
};

pub const LINK: &str = "10-calico.conflist";
const SINGLE: &str = r#"{"cniVersion":"0.3.1","name":"k8s-pod-network","type":"calico"}"#;

/// Writes a file of the node's image and returns its path.
pub fn image_file(node: &Node, path: &str, content: &str) -> PathBuf {
    let file = node.path("host").join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, content).unwrap();
    file
}

/// Returns a node whose network is a symlink to a file of its image, and that file's path.
pub fn linked(target: &str) -> (Node, PathBuf) {
    let node = Node::new();
    let file = image_file(&node, "usr/lib/cni/calico", CALICO);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).unwrap();
    symlink(target, node.net(LINK)).unwrap();
    (node, file)
}

pub fn is_link_to(path: &Path, target: &str) -> bool {
    fs::read_link(path).is_ok_and(|found| found == Path::new(target))
}

#[test]
fn outside_symlink_is_replaced_and_restored_exactly() {
    for target in [
        "/usr/lib/cni/calico",
        "../../../usr/lib/cni/calico",
        "/usr/./lib//cni/../cni/calico",
        "/etc/alternatives/cni",
        "/lib/cni/calico",
    ] {
        let (node, file) = linked(target);
        fs::create_dir_all(node.path("host/etc/alternatives")).unwrap();
        symlink("/usr/lib/cni/calico", node.path("host/etc/alternatives/cni")).unwrap();
        symlink("usr/lib", node.path("host/lib")).unwrap();
        let (before, stamps) = (node.snapshot(), node.stamps());
        node.succeed(&["once"]);
        assert!(
            !node.net(LINK).is_symlink() && node.has_entry(LINK),
            "{target}\n{}",
            node.show()
        );
        assert_eq!(mode(&node.net(LINK)), 0o440, "{target}");
        assert_eq!(
            node.stamps()[&file],
            stamps[&file],
            "{target}: the image's file changed"
        );
        let installed = node.stamps();
        assert_eq!(node.succeed(&["once"]), "", "{target}");
        assert_eq!(node.stamps(), installed, "{target}: a second run changes nothing");
        assert!(
            node.succeed(&["uninstall"]).contains("symlink restored"),
            "{target}"
        );
        assert!(is_link_to(&node.net(LINK), target), "{target}\n{}", node.show());
        assert_eq!(node.snapshot(), before, "{target}\n{}", node.show());
    }
}

#[test]
fn single_plugin_symlink_is_replaced_and_restored_exactly() {
    let node = Node::new();
    let file = image_file(&node, "usr/lib/cni/calico", SINGLE);
    symlink("/usr/lib/cni/calico", node.net("10-calico.conf")).unwrap();
    let before = node.snapshot();
    node.succeed(&["once"]);
    assert!(
        node.has_entry(LINK) && !node.net("10-calico.conf").is_symlink(),
        "{}",
        node.show()
    );
    assert_eq!(node.succeed(&["once"]), "");
    // A node update changes the image's file.
    fs::write(&file, SINGLE.replace("k8s-pod-network", "renamed")).unwrap();
    node.succeed(&["once"]);
    assert!(fs::read_to_string(node.net(LINK)).unwrap().contains("renamed") && node.has_entry(LINK));
    assert!(!node.net("10-calico.conf").is_symlink(), "{}", node.show());
    fs::write(&file, SINGLE).unwrap();
    node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before, "{}", node.show());
}

#[test]
fn damaged_replacement_file_is_recreated() {
    let (node, _) = linked("/usr/lib/cni/calico");
    let before = node.snapshot();
    node.succeed(&["once"]);
    let right = node.snapshot();
    fs::write(node.net(LINK), "").unwrap();
    settle(&node.net(LINK));
    node.succeed(&["once"]);
    assert_eq!(node.snapshot(), right, "{}", node.show());
    node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before, "{}", node.show());
}

#[test]
fn owner_file_in_symlink_place_is_kept() {
    let (node, file) = linked("/usr/lib/cni/calico");
    node.succeed(&["once"]);
    let theirs = CALICO.replace("k8s-pod-network", "theirs");
    fs::write(node.net(LINK), &theirs).unwrap();
    node.succeed(&["once"]);
    fs::write(&file, CALICO.replace("k8s-pod-network", "renamed")).unwrap();
    node.succeed(&["once"]);
    assert!(node.has_entry(LINK) && fs::read_to_string(node.net(LINK)).unwrap().contains("theirs"));
    node.succeed(&["uninstall"]);
    assert_eq!(fs::read_to_string(node.net(LINK)).unwrap(), theirs);
    assert!(!node.net("linkerd-cni.evergreen").exists(), "{}", node.show());
    // The same when our entry is already missing at the removal.
    let (node, _) = linked("/usr/lib/cni/calico");
    let before = node.snapshot();
    node.succeed(&["once"]);
    fs::write(node.net(LINK), CALICO).unwrap();
    node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before, "{}", node.show());
}

#[test]
fn symlink_is_restored_when_entry_moves() {
    let (node, _) = linked("/usr/lib/cni/calico");
    node.succeed(&["once"]);
    fs::write(node.net("05-other.conflist"), CALICO).unwrap();
    node.succeed(&["once"]);
    assert!(node.has_entry("05-other.conflist") && is_link_to(&node.net(LINK), "/usr/lib/cni/calico"));
}

#[test]
fn invisible_target_fails_installation_with_cure() {
    let node = Node::new().with_network("20-other.conflist", CALICO);
    // In the installer's own root the same path is a different file.
    let elsewhere = node.path("elsewhere");
    fs::write(&elsewhere, CALICO).unwrap();
    let target = elsewhere.to_str().unwrap().to_owned();
    symlink(&target, node.net(LINK)).unwrap();
    let words = [
        "/etc/cni/net.d/10-calico.conflist",
        &target,
        "mount",
        "plain file",
    ];
    let log = node.fail(&["once"], &words);
    assert!(!log.contains("cannot load it either"), "{log}");
    let failed = log.lines().last().unwrap();
    assert!(failed.contains("not installed") && failed.contains(LINK), "{log}");
    assert!(is_link_to(&node.net(LINK), &target));
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), CALICO);
    let checked = node.run(&["check"]);
    let findings = String::from_utf8_lossy(&checked.stdout).into_owned();
    let fault = findings.lines().find(|l| l.contains("a symlink to")).unwrap();
    assert!(
        fault.starts_with("FAULT network: /etc/cni/net.d/10-calico.conflist"),
        "{findings}"
    );
    // Does not matter when another network is selected.
    node.succeed(&["once", "--conflist", "20-other.conflist"]);
    node.fail(&["once", "--conflist", LINK], &words);
    node.fail(&["once", "--conflist", "all"], &words);
    // Does not matter when the runtime uses another network.
    fs::rename(node.net(LINK), node.net("30-calico.conflist")).unwrap();
    node.succeed(&["once"]);
    node.succeed(&["uninstall"]);
    assert!(is_link_to(&node.net("30-calico.conflist"), &target));
}

#[test]
fn invisible_target_is_unready_until_fixed() {
    let cluster = Cluster::new();
    symlink("/usr/lib/cni/calico", cluster.node.net("05-a.conflist")).unwrap();
    let mut installer = cluster.node.start_and_wait_for(LINK);
    let ready = || get(&cluster, "/readyz");
    installer.until(&cluster.node, "/readyz names the symlink", || {
        ready().contains("05-a.conflist: a symlink to /usr/lib/cni/calico")
    });
    assert!(ready().starts_with("HTTP/1.1 503 "), "{}", ready());
    fs::remove_file(cluster.node.net("05-a.conflist")).unwrap();
    installer.until(&cluster.node, "the installer is ready", || {
        ready().starts_with("HTTP/1.1 200 ")
    });
}

#[test]
fn inside_symlink_is_followed() {
    for target in ["real", "/etc/cni/net.d/real", "../net.d/real"] {
        let node = Node::new().with_network("real", CALICO);
        symlink(target, node.net(LINK)).unwrap();
        let before = node.snapshot();
        node.succeed(&["once"]);
        assert!(is_link_to(&node.net(LINK), target), "{target}\n{}", node.show());
        assert!(node.has_entry("real"), "{target}\n{}", node.show());
        node.succeed(&["uninstall"]);
        assert_eq!(node.snapshot(), before, "{target}\n{}", node.show());
    }
}

#[test]
fn dangling_symlink_is_reported_and_skipped() {
    for target in ["nowhere", LINK, "/etc/cni/net.d/nowhere", "/etc/cni/net.d"] {
        let node = Node::new().with_network("20-other.conflist", CALICO);
        symlink(target, node.net(LINK)).unwrap();
        let log = node.succeed(&["once"]);
        assert!(node.has_entry("20-other.conflist"), "{target}: {log}");
        assert!(
            log.contains(LINK) && log.contains("cannot load it either"),
            "{target}: {log}"
        );
        node.succeed(&["uninstall"]);
        assert!(is_link_to(&node.net(LINK), target));
    }
    // On the node itself every target is visible.
    let node = Node::new()
        .at_its_own_paths()
        .with_network("20-other.conflist", CALICO);
    node.image_file(
        "evergreen-cni",
        b"#!/bin/sh\necho '{\"supportedVersions\":[\"1.0.0\"]}'\n",
    );
    symlink("/does/not/exist", node.net(LINK)).unwrap();
    assert!(node.succeed(&["once"]).contains("cannot load it either"));
}

#[test]
fn removal_restores_symlink_over_damaged_file() {
    for (name, text) in [(LINK, CALICO), ("10-calico.conf", SINGLE)] {
        let node = Node::new();
        image_file(&node, "usr/lib/cni/calico", text);
        symlink("/usr/lib/cni/calico", node.net(name)).unwrap();
        let before = node.snapshot();
        node.succeed(&["once"]);
        fs::write(node.net(LINK), "").unwrap();
        settle(&node.net(LINK));
        let log = node.succeed(&["uninstall"]);
        assert_eq!(node.snapshot(), before, "{name}: {log}\n{}", node.show());
    }
}

#[test]
fn inside_single_plugin_symlink_is_restored() {
    let node = Node::new().with_network("real", SINGLE);
    symlink("real", node.net("10-calico.conf")).unwrap();
    let before = node.snapshot();
    node.succeed(&["once"]);
    node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before, "{}", node.show());
}
