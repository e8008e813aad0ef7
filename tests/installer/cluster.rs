//! A node and a fake API server that accepts the pod's token and holds the DaemonSet.

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

/// A node and its API server.
pub struct Cluster {
    pub api: Api,
    pub pki: Pki,
    pub node: Node,
}

impl Cluster {
    /// Returns a node with Calico's conflist and an installer that has every permission.
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

    /// Sets a variable of the installer.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.node = self.node.with(name, value);
        self
    }

    /// Rotates the pod's token as the kubelet does and returns the new one.
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

    /// Returns the token on the node; empty when there is none.
    pub fn token(&self) -> String {
        fs::read_to_string(self.node.net("linkerd-cni.evergreen/token")).unwrap_or_default()
    }

    /// Returns the claims of the token on the node.
    pub fn claims(&self) -> Claims {
        Claims::read(self.token().as_bytes()).unwrap_or_default()
    }

    /// Returns whether the token on the node is bound to the Node object.
    pub fn has_node_token(&self) -> bool {
        self.claims()
            .kubernetes
            .node
            .is_some_and(|node| node.name == "node1")
    }

    /// Starts the installer and waits until it is ready.
    pub fn start(&self) -> Installer {
        let mut installer = self.node.start_and_wait_for("10-calico.conflist");
        installer.until(&self.node, "the installer logs its port", || {
            installer_port(self).is_some()
        });
        installer.until(&self.node, "the installer is ready", || {
            get(self, "/readyz").starts_with("HTTP/1.1 200 ")
        });
        installer
    }
}

/// Returns the port that the newest installer has logged.
fn installer_port(cluster: &Cluster) -> Option<u16> {
    let log = cluster.node.newest_log();
    let line = log.lines().find(|l| l.contains("serving probes"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// Returns the whole response of the newest installer; empty when it serves nothing.
pub fn get(cluster: &Cluster, path: &str) -> String {
    let response = installer_port(cluster).and_then(|port| http::get(port, path).ok());
    response.unwrap_or_default()
}
