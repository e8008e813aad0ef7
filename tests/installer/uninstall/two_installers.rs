//! Two installers on one node: which of them acts, and records that belong to neither.

use std::fs;

use crate::{
    cluster::Cluster,
    node::{CALICO, Node},
    uninstall::shutdown::{kept, removed},
};

#[test]
fn older_installer_yields_to_newer_one() {
    let cluster = Cluster::new().with("EVERGREEN_ON_TERM", "remove");
    let old = cluster.start();
    let new = cluster.start();
    let (status, log) = old.end();
    assert!(
        status.success() && kept(&cluster.node),
        "{log}\n{}",
        cluster.node.show()
    );
    assert!(log.contains("another installer works on this node"), "{log}");
    // The newer installer's removal is final.
    let (status, log) = new.end();
    assert!(
        status.success() && removed(&cluster.node),
        "{log}\n{}",
        cluster.node.show()
    );
}

#[test]
fn two_simultaneous_shutdowns_leave_clean_node() {
    // An uninstall during an update, in each order; neither waits for the other.
    for newest_first in [true, false] {
        let cluster = Cluster::new();
        let mut old = cluster.start();
        let mut new = cluster.start();
        old.until(&cluster.node, "the old installer yields", || {
            cluster.node.logs_contain("a newer installer has taken over")
        });
        cluster.api.remove(crate::cluster::DAEMONSET);
        let both = if newest_first { [&new, &old] } else { [&old, &new] };
        both.iter().for_each(|installer| installer.signal("-TERM"));
        let ends = [old.ended(), new.ended()];
        let logs = format!(
            "{}
{}",
            ends[0].1, ends[1].1
        );
        assert!(ends.iter().all(|(status, _)| status.success()), "{logs}");
        assert!(
            removed(&cluster.node),
            "{logs}
{}",
            cluster.node.show()
        );
    }
}

#[test]
fn older_installer_resumes_when_newer_dies() {
    let cluster = Cluster::new().with("EVERGREEN_TOKEN_SOURCE", "copy");
    let mut old = cluster.start();
    let mut new = cluster.start();
    old.until(&cluster.node, "the old installer yields", || {
        cluster.node.logs_contain("a newer installer has taken over")
    });
    new.signal("-KILL");
    new.ended();
    fs::write(cluster.node.net("10-calico.conflist"), CALICO).unwrap();
    old.until(&cluster.node, "the old installer restores the entry", || {
        cluster.node.has_entry("10-calico.conflist")
    });
    let (_, log) = old.end();
    assert!(kept(&cluster.node), "{log}");
}

#[test]
fn later_start_wins_also_for_downgrades() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("EVERGREEN_ON_TERM", "remove");
    let mut first = node.start_and_wait_for("10-calico.conflist");
    // Another image version has another plugin binary.
    let other = b"#!/bin/sh\n# older\necho '{\"supportedVersions\":[\"1.0.0\"]}'\n";
    let downgrade = node.with("CONTAINER_CNI_BIN_DIR", "");
    fs::create_dir_all(downgrade.path("older")).unwrap();
    fs::write(downgrade.path("older/evergreen-cni"), other).unwrap();
    fs::set_permissions(
        downgrade.path("older/evergreen-cni"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let older = downgrade.path("older").to_str().unwrap().to_owned();
    let node = downgrade.with("CONTAINER_CNI_BIN_DIR", &older);
    let mut second = node.start();
    second.until(&node, "the older plugin is installed", || {
        fs::read(node.bin("linkerd-cni")).unwrap() == other
    });
    first.until(&node, "the first installer yields", || {
        node.logs_contain("a newer installer has taken over")
    });
    fs::remove_file(node.bin("linkerd-cni")).unwrap();
    second.until(&node, "the older plugin is restored", || {
        fs::read(node.bin("linkerd-cni")).is_ok_and(|b| b == other)
    });
    let (status, log) = first.end();
    assert!(status.success() && node.has_entry("10-calico.conflist"), "{log}");
    assert!(second.end().0.success());
    assert!(removed(&node), "{}", node.show());
}

#[test]
fn uninstall_warns_about_running_installer() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let installer = node.start_and_wait_for("10-calico.conflist");
    let log = node.succeed(&["uninstall"]);
    assert!(log.contains("still running"), "{log}");
    drop(installer);
    node.succeed(&["uninstall"]);
    assert!(removed(&node), "{}", node.show());
}

#[test]
fn unbeatable_record_is_reported_and_ignored() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("EVERGREEN_ON_TERM", "remove");
    let own = node.net("linkerd-cni.evergreen");
    fs::create_dir(&own).unwrap();
    let names = [u64::MAX, u64::MAX - 1].map(|number| own.join(format!("owner-{number}")));
    let forged = names.each_ref().map(|name| fs::File::create(name).unwrap());
    forged.iter().for_each(|record| record.lock().unwrap());
    let mut installer = node.start_and_wait_for("10-calico.conflist");
    installer.until(&node, "the log reports it", || {
        node.logs_contain("owner-18446744073709551615")
    });
    assert!(node.logs_contain("remove it"), "{}", installer.log());
    // The records' owners are gone, so the records are removed.
    drop(forged);
    fs::write(node.net("10-calico.conflist"), CALICO).unwrap();
    installer.until(&node, "the entry is restored", || {
        node.has_entry("10-calico.conflist")
    });
    installer.until(&node, "the problem is resolved", || {
        node.logs_contain("msg=\"operation recovered\" operation=record")
    });
    let (status, log) = installer.end();
    assert!(status.success() && removed(&node), "{log}\n{}", node.show());
}
