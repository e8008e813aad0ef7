//! A node with an API server behind it: the pod's token is one that server knows, and the DaemonSet is one it holds.

use std::fs;

use evergreen_kube::claims::Claims;
use evergreen_test_support::{
    api::{Api, Bound},
    http,
    pki::Pki,
};
use serde_json::json;

use crate::node::{CALICO, Installer, Node};

pub const POD: &str = "/api/v1/namespaces/linkerd-cni/pods/linkerd-cni-abcde";
pub const DAEMONSET: &str = "/apis/apps/v1/namespaces/linkerd-cni/daemonsets/linkerd-cni";
pub const NODE: &str = "/api/v1/nodes/node1";

/// The two together.
pub struct Cluster {
    pub api: Api,
    pub pki: Pki,
    pub node: Node,
}

impl Cluster {
    /// A node with Calico's conflist, whose installer may do everything.
    pub fn new() -> Self {
        let pki = Pki::new();
        let api = Api::start(&pki);
        api.put_pod(
            "linkerd-cni",
            "linkerd-cni-abcde",
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"uid": "pod-1"}}),
        );
        api.put(
            DAEMONSET,
            json!({"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": "linkerd-cni"}}),
        );
        api.put_node("node1", "node-1");
        let node = Node::new()
            .with_network("10-calico.conflist", CALICO)
            .with("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .with("KUBERNETES_SERVICE_PORT", &api.address().port().to_string())
            .with("EVERGREEN_ADMIN_PORT", "0")
            .with("EVERGREEN_TOKEN_SOURCE", "auto")
            .with("NODE_NAME", "node1");
        let mut cluster = Self { api, pki, node };
        cluster.rotate();
        cluster
    }

    /// With a variable of the installer set.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.node = self.node.with(name, value);
        self
    }

    /// The kubelet renews the pod's token.
    pub fn rotate(&mut self) -> String {
        let bound = Bound {
            kind: "Pod".to_owned(),
            name: "linkerd-cni-abcde".to_owned(),
            uid: "pod-1".to_owned(),
        };
        let token = self.api.mint("linkerd-cni", "linkerd-cni", Some(&bound), 3600);
        let ca = self.pki.ca.pem().to_owned();
        self.node.rotate(&token, &ca);
        token
    }

    /// The token on the node.
    pub fn token(&self) -> String {
        fs::read_to_string(self.node.net("linkerd-cni.evergreen/token")).unwrap_or_default()
    }

    /// What the token on the node says of itself.
    pub fn claims(&self) -> Claims {
        Claims::read(self.token().as_bytes()).unwrap_or_default()
    }

    /// True when the token on the node is bound to this one.
    pub fn has_node_token(&self) -> bool {
        self.claims()
            .kubernetes
            .node
            .is_some_and(|node| node.name == "node1")
    }

    /// Starts the installer and waits until it is ready.
    pub fn start(&self) -> Installer {
        let mut installer = self.node.start_and_wait_for("10-calico.conflist");
        installer.until(&self.node, "it serves", || installer_port(self).is_some());
        installer.until(&self.node, "it is ready", || {
            get(self, "/readyz").starts_with("HTTP/1.1 200 ")
        });
        installer
    }
}

/// The port that the newest installer of the node has said it serves on.
fn installer_port(cluster: &Cluster) -> Option<u16> {
    let log = cluster.node.newest_log();
    let line = log.lines().find(|l| l.contains("serving probes"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// The whole answer of the newest installer, or nothing.
pub fn get(cluster: &Cluster, path: &str) -> String {
    let response = installer_port(cluster).and_then(|port| http::get(port, path).ok());
    response.unwrap_or_default()
}
