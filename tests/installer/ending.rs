//! SIGTERM: when the installation ends on this node, and when only this installer does.

use std::{fs, time::Duration};

use serde_json::json;

use crate::{
    cluster::{Cluster, DAEMONSET},
    node::{CALICO, Node},
};

fn removed(node: &Node) -> bool {
    fs::read_to_string(node.net("10-calico.conflist")).unwrap() == CALICO
        && !node.bin("linkerd-cni").exists()
        && !node.net("linkerd-cni.evergreen").exists()
}

fn kept(node: &Node) -> bool {
    node.has_entry("10-calico.conflist")
        && node.bin("linkerd-cni").exists()
        && node.net("linkerd-cni.evergreen/token").exists()
}

#[test]
fn an_update_keeps_everything_in_place() {
    let cluster = Cluster::new();
    let (status, log) = cluster.start().end();
    assert!(
        status.success() && kept(&cluster.node),
        "{log}\n{}",
        cluster.node.show()
    );
    assert!(
        log.contains("leaving=keeps because=\"the DaemonSet is still wanted\""),
        "{log}"
    );
}

#[test]
fn a_daemonset_that_is_being_deleted_or_gone_means_removal() {
    let cluster = Cluster::new();
    let installer = cluster.start();
    cluster.api.put(
        DAEMONSET,
        json!({"kind": "DaemonSet", "apiVersion": "apps/v1",
               "metadata": {"name": "linkerd-cni", "deletionTimestamp": "2026-11-30T00:00:00Z"}}),
    );
    let (status, log) = installer.end();
    assert!(
        status.success() && removed(&cluster.node),
        "{log}\n{}",
        cluster.node.show()
    );

    let cluster = Cluster::new();
    let installer = cluster.start();
    cluster.api.remove(DAEMONSET);
    let (status, log) = installer.end();
    assert!(
        status.success() && removed(&cluster.node),
        "{log}\n{}",
        cluster.node.show()
    );
}

#[test]
fn when_the_api_server_cannot_be_asked_a_variable_decides() {
    for (unsure, keeps) in [("keep", true), ("remove", false)] {
        let mut cluster = Cluster::new().with("EVERGREEN_ON_TERM_UNSURE", unsure);
        let installer = cluster.start();
        cluster.api.pause();
        let (status, log) = installer.end();
        assert!(status.success(), "{log}");
        assert!(
            if keeps {
                kept(&cluster.node)
            } else {
                removed(&cluster.node)
            },
            "{unsure}: {log}"
        );
        assert!(log.contains("EVERGREEN_ON_TERM_UNSURE decides"), "{log}");
    }
}

#[test]
fn under_linkerds_chart_rights_that_vanish_for_good_mean_removal() {
    let cluster = Cluster::new();
    cluster.api.forbid("get", "daemonsets");
    let installer = cluster.start();
    cluster.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter()
            .any(|s| s.path.ends_with("selfsubjectaccessreviews") && s.status == 201)
    });
    cluster.api.forbid("get", "pods");
    let (status, log) = installer.end();
    assert!(
        status.success() && removed(&cluster.node),
        "{log}\n{}",
        cluster.node.show()
    );
    assert!(log.contains("the rights this pod had are gone"), "{log}");
}

#[test]
fn under_linkerds_chart_rights_that_stay_or_come_back_mean_that_everything_stays() {
    let cluster = Cluster::new();
    cluster.api.forbid("get", "daemonsets");
    let mut installer = cluster.start();
    cluster.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter()
            .any(|s| s.path.ends_with("selfsubjectaccessreviews") && s.status == 201)
    });
    // As an API server that has just started: 403 until it has read its roles.
    cluster.api.forbid("get", "pods");
    cluster.api.clear_requests();
    installer.signal("-TERM");
    cluster.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter().any(|s| s.path.contains("/pods/") && s.status == 403)
    });
    cluster.api.allow("get", "pods");
    let (status, log) = installer.ended();
    assert!(
        status.success() && kept(&cluster.node),
        "{log}\n{}",
        cluster.node.show()
    );
}

#[test]
fn a_pod_that_is_deleted_by_force_takes_its_token_along_and_nothing_else() {
    let cluster = Cluster::new();
    let mut installer = cluster.start();
    installer.until(&cluster.node, "a token bound to the node is there", || {
        cluster.has_node_token()
    });
    cluster.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter()
            .any(|s| s.path.ends_with("selfsubjectaccessreviews") && s.status == 201)
    });
    cluster.api.remove(crate::cluster::POD);
    let (status, log) = installer.end();
    assert!(status.success() && kept(&cluster.node), "{log}");
    // The same, and the plugin's account is gone too: an uninstallation.
    let cluster = Cluster::new();
    let mut installer = cluster.start();
    installer.until(&cluster.node, "a token bound to the node is there", || {
        cluster.has_node_token()
    });
    cluster.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter()
            .filter(|s| s.path.ends_with("selfsubjectaccessreviews") && s.status == 201)
            .count()
            > 8
    });
    cluster.api.remove(crate::cluster::POD);
    cluster.api.remove(crate::cluster::NODE);
    let (status, log) = installer.end();
    assert!(status.success() && removed(&cluster.node), "{log}");
}

#[test]
fn an_older_installer_leaves_everything_to_a_newer_one() {
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
    // Removal by the newer one is the last word.
    let (status, log) = new.end();
    assert!(
        status.success() && removed(&cluster.node),
        "{log}\n{}",
        cluster.node.show()
    );
}

#[test]
fn an_older_installer_takes_over_again_when_the_newer_one_dies() {
    let cluster = Cluster::new().with("EVERGREEN_TOKEN_SOURCE", "copy");
    let mut old = cluster.start();
    let mut new = cluster.start();
    old.until(&cluster.node, "the old one knows", || {
        cluster.node.logs_contain("a newer installer has taken over")
    });
    new.signal("-KILL");
    new.ended();
    fs::write(cluster.node.net("10-calico.conflist"), CALICO).unwrap();
    old.until(&cluster.node, "the old one heals", || {
        cluster.node.has_entry("10-calico.conflist")
    });
    let (_, log) = old.end();
    assert!(kept(&cluster.node), "{log}");
}

#[test]
fn a_downgrade_is_an_installer_that_starts_later() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("EVERGREEN_ON_TERM", "remove");
    let mut first = node.start_and_wait_for("10-calico.conflist");
    // Another version of the image: other bytes of the plugin.
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
    second.until(&node, "the older plugin is there", || {
        fs::read(node.bin("linkerd-cni")).unwrap() == other
    });
    first.until(&node, "the first one knows", || {
        node.logs_contain("a newer installer has taken over")
    });
    fs::remove_file(node.bin("linkerd-cni")).unwrap();
    second.until(&node, "the older plugin is back", || {
        fs::read(node.bin("linkerd-cni")).is_ok_and(|b| b == other)
    });
    let (status, log) = first.end();
    assert!(status.success() && node.has_entry("10-calico.conflist"), "{log}");
    assert!(second.end().0.success());
    assert!(removed(&node), "{}", node.show());
}

#[test]
fn uninstall_says_when_an_installer_will_put_everything_back() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let installer = node.start_and_wait_for("10-calico.conflist");
    let log = node.succeed(&["uninstall"]);
    assert!(log.contains("still running"), "{log}");
    drop(installer);
    node.succeed(&["uninstall"]);
    assert!(removed(&node), "{}", node.show());
}
