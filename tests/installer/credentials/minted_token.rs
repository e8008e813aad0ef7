//! A token minted for the plugin: issued, renewed, replaced by a fallback, and always reported.

use std::{fs, time::Duration};

use evergreen_test_support::{api::Answer, budget::within};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, NODE, POD, get},
    node::{CALICO, PATIENCE, mode},
};

#[test]
fn minted_token_is_bound_to_node() {
    let cluster = Cluster::new();
    let mut installer = cluster.start();
    installer.until(&cluster.node, "a node-bound token is on the node", || {
        cluster.has_node_token()
    });
    let kind = "evergreen_install_credential{kind=\"node-bound\"} 1";
    installer.until(&cluster.node, "the metrics report it", || {
        get(&cluster, "/metrics").contains(kind)
    });
    assert_eq!(mode(&cluster.node.net("linkerd-cni.evergreen/token")), 0o600);
    let record: Value =
        serde_json::from_slice(&fs::read(cluster.node.net("linkerd-cni.evergreen/credential")).unwrap())
            .unwrap();
    assert_eq!(record["kind"], "node-bound");
    // Deleting the pod revokes its token; the one on the node still works.
    cluster.api.remove(POD);
    cluster.api.clear_requests();
    let before = cluster.token();
    installer.signal("-KILL");
    installer.ended();
    let user = get_pod_as_plugin(&cluster);
    assert_eq!(user, "system:serviceaccount:linkerd-cni:linkerd-cni");
    assert_eq!(cluster.token(), before);
}

fn get_pod_as_plugin(cluster: &Cluster) -> String {
    use evergreen_kube::{
        Client, Kubeconfig, Request, Source,
        deadline::Deadline,
        log::{Component, Level, Log},
    };
    let file = |name: &str| Source::File(cluster.node.net("linkerd-cni.evergreen").join(name));
    let kubeconfig = Kubeconfig::of(&cluster.api.url(), file("ca.crt"), file("token")).unwrap();
    let mut client = Client::with(
        kubeconfig,
        Deadline::after(within(PATIENCE)),
        Log::new(Component::Plugin, Level::Warn),
    )
    .unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer: Value = client
        .request(&Request::post(path, &review, "review our identity"), |body| {
            serde_json::from_slice(body).map_err(|e| e.to_string())
        })
        .unwrap();
    answer["status"]["userInfo"]["username"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn restart_keeps_valid_minted_token() {
    let cluster = Cluster::new();
    let mut installer = cluster.start();
    installer.until(&cluster.node, "a node-bound token is on the node", || {
        cluster.has_node_token()
    });
    installer.signal("-KILL");
    installer.ended();
    let token = cluster.token();
    let mut installer = cluster.start();
    assert_eq!(cluster.token(), token, "{}", installer.log());
    // Another account needs another token.
    installer.signal("-KILL");
    installer.ended();
    let cluster = cluster.with("EVERGREEN_SERVICE_ACCOUNT", "plugin");
    let mut installer = cluster.node.start();
    installer.until(
        &cluster.node,
        "a token of the other account is on the node",
        || cluster.claims().sub == "system:serviceaccount:linkerd-cni:plugin",
    );
}

#[test]
fn refused_minting_falls_back_to_copied_token() {
    let mut cluster = Cluster::new();
    cluster.api.forbid("create", "serviceaccounts/token");
    let mut installer = cluster.start();
    for _ in 0..3 {
        let token = cluster.rotate();
        installer.until(&cluster.node, "the copied token is on the node", || {
            cluster.token() == token
        });
    }
    assert!(
        installer
            .log()
            .contains("msg=\"using a copy of the pod's token\" error="),
        "{}",
        installer.log()
    );
    assert!(get(&cluster, "/metrics").contains("evergreen_install_credential{kind=\"copy\"} 1"));
    let record = fs::read_to_string(cluster.node.net("linkerd-cni.evergreen/credential")).unwrap();
    assert!(record.contains("refuses to issue a token"), "{record}");
}

#[test]
fn no_node_binding_falls_back_to_unbound_token() {
    let cluster = Cluster::new();
    cluster.api.add_route(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        (body["spec"]["boundObjectRef"]["kind"] == "Node").then(|| {
            Answer::status(
                400,
                "cannot bind token to object of type /v1, Kind=Node",
                "BadRequest",
                "",
            )
        })
    });
    let mut installer = cluster.start();
    let kind = || get(&cluster, "/metrics").contains("evergreen_install_credential{kind=\"unbound\"} 1");
    installer.until(&cluster.node, "an unbound token is on the node", kind);
    let claims = cluster.claims();
    assert_eq!(claims.exp.unwrap() - claims.iat.unwrap(), 3600);
}

#[test]
fn rejected_token_is_replaced() {
    let cluster = Cluster::new();
    let mut installer = cluster.start();
    installer.until(&cluster.node, "a node-bound token is on the node", || {
        cluster.has_node_token()
    });
    let old = cluster.token();
    installer.signal("-KILL");
    installer.ended();
    // The Node object is recreated under its old name: tokens bound to the old one are rejected.
    cluster.api.remove(NODE);
    cluster.api.put_node("node1", "node-2");
    let mut installer = cluster.node.start();
    let bound_to_new_node = || {
        cluster
            .claims()
            .kubernetes
            .node
            .is_some_and(|n| n.uid == "node-2")
    };
    installer.until(
        &cluster.node,
        "a token bound to the new Node is on the node",
        bound_to_new_node,
    );
    assert_ne!(cluster.token(), old);
}

#[test]
fn rotated_pod_token_triggers_new_minted_token() {
    let mut cluster = Cluster::new();
    let mut installer = cluster.start();
    installer.until(&cluster.node, "a node-bound token is on the node", || {
        cluster.has_node_token()
    });
    let old = cluster.token();
    cluster.rotate();
    installer.until(&cluster.node, "a new token is on the node", || {
        cluster.token() != old && cluster.has_node_token()
    });
}

#[test]
fn rejected_token_never_replaces_accepted_one() {
    let mut cluster = Cluster::new();
    let mut installer = cluster.start();
    installer.until(&cluster.node, "a node-bound token is on the node", || {
        cluster.has_node_token()
    });
    let old = cluster.token();
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    cluster.api.set_answer("POST", path, Answer::unauthorized());
    cluster.api.clear_requests();
    cluster.rotate();
    cluster.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter().any(|s| s.path == path)
    });
    assert_eq!(cluster.token(), old, "{}", installer.log());
}

#[test]
fn once_mints_token_when_configured() {
    let cluster = Cluster::new().with("EVERGREEN_TOKEN_SOURCE", "request");
    cluster.node.succeed(&["once"]);
    assert!(cluster.has_node_token(), "{}", cluster.node.show());
    let refused = Cluster::new().with("EVERGREEN_TOKEN_SOURCE", "request");
    refused.api.forbid("create", "serviceaccounts/token");
    refused.node.fail(&["once"], &["token", "forbidden"]);
    assert_eq!(
        fs::read_to_string(refused.node.net("10-calico.conflist")).unwrap(),
        CALICO
    );
}

#[test]
fn once_follows_kubelet_volume_when_found() {
    let cluster = Cluster::new();
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"uid": "pod-1"}, "spec": {
        "volumes": [{"name": "token", "projected": {"sources": []}}],
        "initContainers": [{"name": "install", "volumeMounts": [
            {"name": "token", "mountPath": cluster.node.path("serviceaccount").to_str().unwrap()}]}]}});
    cluster.api.put_pod("linkerd-cni", "linkerd-cni-abcde", pod);
    cluster.node.succeed(&["once"]);
    let kubeconfig = || fs::read_to_string(cluster.node.net("ZZZ-linkerd-cni-kubeconfig")).unwrap();
    let volume = "/var/lib/kubelet/pods/pod-1/volumes/kubernetes.io~projected/token";
    for file in ["token", "ca.crt"] {
        assert!(
            kubeconfig().contains(&format!("\"{volume}/{file}\"")),
            "{}",
            kubeconfig()
        );
        assert!(!cluster.node.net("linkerd-cni.evergreen").join(file).exists());
    }
    assert!(cluster.node.has_entry("10-calico.conflist"));
    // The kubelet's directory is visible and does not contain the volume, so the path must be wrong.
    fs::create_dir_all(cluster.node.path("host/var/lib/kubelet")).unwrap();
    let log = cluster.node.succeed(&["once"]);
    assert!(
        log.contains("using a copy") && log.contains("EVERGREEN_KUBELET_DIR"),
        "{log}"
    );
    assert_eq!(
        cluster.token(),
        fs::read_to_string(cluster.node.path("serviceaccount/token")).unwrap()
    );
    let fresh = Cluster::new();
    fresh.node.fail(
        &["once", "--token-source", "kubelet-volume"],
        &["mounts no projected volume"],
    );
    assert_eq!(
        fs::read_to_string(fresh.node.net("10-calico.conflist")).unwrap(),
        CALICO
    );
}

#[test]
fn secrets_are_never_logged_or_served() {
    let mut cluster = Cluster::new();
    let mut installer = cluster.start();
    installer.until(&cluster.node, "a node-bound token is on the node", || {
        cluster.has_node_token()
    });
    let (minted, pods) = (cluster.token(), cluster.rotate());
    installer.until(&cluster.node, "a new token is on the node", || {
        cluster.token() != minted
    });
    let said = format!("{}{}", get(&cluster, "/metrics"), get(&cluster, "/readyz"));
    let (_, log) = installer.end();
    for secret in [&minted, &pods] {
        assert!(!log.contains(secret.as_str()) && !said.contains(secret.as_str()));
        let signature = secret.rsplit('.').next().unwrap();
        assert!(!log.contains(signature), "{log}");
    }
}
