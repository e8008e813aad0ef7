//! SIGTERM when the API server no longer accepts the pod's token: a forced deletion or an uninstall.

use std::time::Duration;

use evergreen_test_support::{api::Bound, kubelet::Volume};
use serde_json::json;

use crate::{
    cluster::{Cluster, NODE, POD},
    node::Installer,
    uninstall::shutdown::{kept, removed, wait_until_it_knows},
};

/// Starts an installer that has minted a token for the plugin.
fn minted() -> (Cluster, Installer) {
    let cluster = Cluster::new();
    let mut installer = cluster.start();
    installer.until(&cluster.node, "a node-bound token is on the node", || {
        cluster.has_node_token()
    });
    wait_until_it_knows(&cluster);
    (cluster, installer)
}

#[test]
fn force_deleted_pod_keeps_everything() {
    let (cluster, installer) = minted();
    cluster.api.remove(POD);
    let (status, log) = installer.end();
    assert!(status.success() && kept(&cluster.node), "{log}");
    assert!(log.contains("force-deleted"), "{log}");
}

#[test]
fn deleted_plugin_account_means_removal() {
    let (cluster, installer) = minted();
    cluster.api.remove(POD);
    cluster.api.remove(NODE);
    let (status, log) = installer.end();
    assert!(status.success() && removed(&cluster.node), "{log}");
}

#[test]
fn cached_token_does_not_hide_uninstall() {
    // kube-apiserver caches a valid token for ten seconds; the permissions are already gone.
    let (cluster, installer) = minted();
    cluster.api.remove(POD);
    cluster.api.forbid("get", "pods");
    let (status, log) = installer.end();
    assert!(status.success() && removed(&cluster.node), "{log}");
}

/// Starts an installer as under Linkerd's chart: a copied token, and no permission to get the DaemonSet.
fn copied() -> (Cluster, Installer) {
    let cluster = Cluster::new().with("EVERGREEN_TOKEN_SOURCE", "copy");
    cluster.api.forbid("get", "daemonsets");
    let installer = cluster.start();
    wait_until_it_knows(&cluster);
    (cluster, installer)
}

#[test]
fn copied_token_of_dead_pod_awaits_successor() {
    let (mut cluster, mut installer) = copied();
    cluster.api.remove(POD);
    cluster.api.clear_requests();
    installer.signal("-TERM");
    // Longer than permissions must be missing.
    cluster.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter().filter(|s| s.path == POD && s.status == 401).count() > 9
    });
    // The DaemonSet's next pod has its own token.
    let name = "linkerd-cni-fghij";
    cluster.api.put_pod(
        "linkerd-cni",
        name,
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"uid": "pod-2"}}),
    );
    let bound = Bound {
        kind: "Pod".to_owned(),
        name: name.to_owned(),
        uid: "pod-2".to_owned(),
    };
    let token = cluster.api.mint("linkerd-cni", "linkerd-cni", Some(&bound), 3600);
    let files: [(&str, &[u8]); 3] = [
        ("token", token.as_bytes()),
        ("ca.crt", cluster.pki.ca.pem().as_bytes()),
        ("namespace", b"linkerd-cni"),
    ];
    let _volume = Volume::create(&cluster.node.path("second"), &files).unwrap();
    let file = cluster.node.path("second/token");
    cluster = cluster.with("KUBE_TOKEN_FILE", file.to_str().unwrap());
    let mut second = cluster.node.start();
    second.until(&cluster.node, "the second installer has taken over", || {
        cluster.token() == token
    });
    let (status, log) = installer.ended();
    assert!(status.success() && kept(&cluster.node), "{log}");
}

#[test]
fn copied_token_of_deleted_account_means_removal() {
    let (cluster, installer) = copied();
    cluster.api.remove(POD);
    let (status, log) = installer.end();
    assert!(status.success() && removed(&cluster.node), "{log}");
}
