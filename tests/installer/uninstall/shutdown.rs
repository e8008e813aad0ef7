//! SIGTERM: the end of the installation on this node, or of this installer only.

use std::{fs, thread, time::Duration};

use serde_json::json;

use crate::{
    cluster::{Cluster, DAEMONSET, POD},
    node::{CALICO, Node},
};

pub fn removed(node: &Node) -> bool {
    fs::read_to_string(node.net("10-calico.conflist")).unwrap() == CALICO
        && !node.bin("linkerd-cni").exists()
        && !node.net("linkerd-cni.evergreen").exists()
}

pub fn kept(node: &Node) -> bool {
    node.has_entry("10-calico.conflist")
        && node.bin("linkerd-cni").exists()
        && node.net("linkerd-cni.evergreen/token").exists()
}

#[test]
fn update_keeps_everything() {
    let cluster = Cluster::new();
    let (status, log) = cluster.start().end();
    assert!(
        status.success() && kept(&cluster.node),
        "{log}\n{}",
        cluster.node.show()
    );
    assert!(
        log.contains("msg=shutdown action=keep evidence=\"the DaemonSet exists\""),
        "{log}"
    );
}

#[test]
fn deleted_daemonset_means_removal() {
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
fn unreachable_api_server_leaves_variable_to_decide() {
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
fn unknown_daemonset_is_reported_with_cause() {
    // No namespace file beside the token, and none in the token.
    let mut cluster = Cluster::new().with("EVERGREEN_TOKEN_SOURCE", "copy");
    cluster
        .api
        .accept_token("opaque", "system:serviceaccount:linkerd-cni:linkerd-cni");
    let ca = cluster.pki.ca.pem().to_owned();
    let files: [(&str, &[u8]); 2] = [("token", b"opaque"), ("ca.crt", ca.as_bytes())];
    cluster.node.volume.write(&files).unwrap();
    cluster.api.forbid("get", "pods");
    let (status, log) = cluster.node.start_and_wait_for("10-calico.conflist").end();
    assert!(status.success() && kept(&cluster.node), "{log}");
    assert!(
        log.contains("msg=shutdown action=keep evidence=\"the namespace of this pod"),
        "{log}"
    );
    // The same without an API server, which is then the reason.
    cluster.api.pause();
    fs::write(cluster.node.net("10-calico.conflist"), CALICO).unwrap();
    let (status, log) = cluster.node.start_and_wait_for("10-calico.conflist").end();
    assert!(status.success() && kept(&cluster.node), "{log}");
    let shutdown = log.lines().find(|l| l.contains("msg=shutdown")).unwrap();
    assert!(
        shutdown.contains("connect")
            && !shutdown.contains("the namespace of this pod")
            && !shutdown.contains("no permission"),
        "{shutdown}"
    );
}

/// Waits until the installer knows its permissions: it has requested its DaemonSet and its pod.
pub fn wait_until_it_knows(cluster: &Cluster) {
    cluster.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter().any(|s| s.path == POD && s.method == "GET")
    });
}

#[test]
fn linkerd_chart_lost_permissions_mean_removal() {
    let cluster = Cluster::new();
    cluster.api.forbid("get", "daemonsets");
    let installer = cluster.start();
    wait_until_it_knows(&cluster);
    cluster.api.forbid("get", "pods");
    let (status, log) = installer.end();
    assert!(
        status.success() && removed(&cluster.node),
        "{log}\n{}",
        cluster.node.show()
    );
    assert!(log.contains("this pod has lost the permissions it had"), "{log}");
}

#[test]
fn linkerd_chart_restored_permissions_keep_everything() {
    let cluster = Cluster::new();
    cluster.api.forbid("get", "daemonsets");
    let mut installer = cluster.start();
    wait_until_it_knows(&cluster);
    // A newly started API server answers 403 until it has loaded its roles.
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
fn losing_the_only_permission_means_removal() {
    let cluster = Cluster::new();
    cluster.api.forbid("get", "pods");
    let installer = cluster.start();
    wait_until_it_knows(&cluster);
    cluster.api.forbid("get", "daemonsets");
    let (status, log) = installer.end();
    assert!(status.success() && removed(&cluster.node), "{log}");
    // A chart that only loses this permission, while it may read pods, is not uninstalled.
    let cluster = Cluster::new();
    let installer = cluster.start();
    wait_until_it_knows(&cluster);
    cluster.api.forbid("get", "daemonsets");
    let (status, log) = installer.end();
    assert!(status.success() && kept(&cluster.node), "{log}");
}

#[test]
fn missing_daemonset_means_removal_and_warns_early() {
    let cluster = Cluster::new();
    cluster.api.remove(DAEMONSET);
    let mut installer = cluster.start();
    installer.until(&cluster.node, "the log reports it", || {
        cluster
            .node
            .logs_contain("msg=\"daemonset not found, so shutdown removes everything\" name=linkerd-cni")
    });
    let (status, log) = installer.end();
    assert!(status.success() && removed(&cluster.node), "{log}");
}

#[test]
fn silent_api_server_is_asked_again() {
    let mut cluster = Cluster::new();
    let mut installer = cluster.start();
    wait_until_it_knows(&cluster);
    cluster.api.remove(DAEMONSET);
    cluster.api.pause();
    installer.signal("-TERM");
    installer.until(&cluster.node, "the installer has asked", || {
        cluster.node.logs_contain("msg=\"shutdown decision delayed\"")
    });
    cluster.api.resume();
    let (status, log) = installer.ended();
    assert!(status.success() && removed(&cluster.node), "{log}");
}

#[test]
fn terminating_namespace_means_removal() {
    for may_read_daemonsets in [true, false] {
        let cluster = Cluster::new();
        if !may_read_daemonsets {
            cluster.api.forbid("get", "daemonsets");
        }
        let installer = cluster.start();
        wait_until_it_knows(&cluster);
        cluster.api.put(
            "/api/v1/namespaces/linkerd-cni",
            json!({"kind": "Namespace", "apiVersion": "v1",
                   "metadata": {"name": "linkerd-cni", "deletionTimestamp": "2026-11-30T00:00:00Z"}}),
        );
        let (status, log) = installer.end();
        assert!(status.success() && removed(&cluster.node), "{log}");
        assert!(log.contains("the namespace is being deleted"), "{log}");
    }
}

#[test]
fn permissions_granted_late_are_missed_at_shutdown() {
    let cluster = Cluster::new();
    let forbid = || {
        cluster.api.forbid("get", "daemonsets");
        cluster.api.forbid("get", "pods");
    };
    // As when manifests apply the roles after the DaemonSet.
    forbid();
    let installer = cluster.start();
    wait_until_it_knows(&cluster);
    cluster.api.allow("get", "daemonsets");
    cluster.api.allow("get", "pods");
    cluster.api.clear_requests();
    cluster.api.wait_for(Duration::from_secs(45), |seen| {
        seen.iter()
            .any(|s| s.path == POD && s.method == "GET" && s.status == 200)
    });
    // No event tells when the installer has processed the response.
    thread::sleep(Duration::from_secs(1));
    forbid();
    let (status, log) = installer.end();
    assert!(status.success() && removed(&cluster.node), "{log}");
}
