//! Sample files of a node: a neighbour's network, a certificate, the chart's netconf, a plugin.

use serde_json::{Value, json};

/// Calico's conflist, shortened.
pub const CALICO: &str = r#"{"cniVersion":"0.3.1","name":"k8s-pod-network","plugins":[{"type":"calico"},{"type":"portmap","capabilities":{"portMappings":true}}]}"#;

/// A CA bundle with one certificate, whose private key was discarded.
pub const CA: &str = include_str!("../../fixtures/ca.crt");

/// The netconf as Linkerd's chart renders it.
pub const NETCONF: &str = r#"{
  "name": "linkerd-cni",
  "type": "linkerd-cni",
  "log_level": "info",
  "kubernetes": { "kubeconfig": "__KUBECONFIG_FILEPATH__" },
  "linkerd": {
    "incoming-proxy-port": 4143,
    "outgoing-proxy-port": 4140,
    "proxy-uid": 2102,
    "ports-to-redirect": [],
    "inbound-ports-to-ignore": ["4191", "4190"],
    "outbound-ports-to-ignore": ["4567", "4568"],
    "simulate": false,
    "use-wait-flag": false,
    "iptables-mode": "nft",
    "ipv6": false
  }
}"#;

/// A plugin that only answers VERSION, which is all the installer runs.
pub const PLUGIN: &str =
    "#!/bin/sh\necho '{\"cniVersion\":\"1.0.0\",\"supportedVersions\":[\"0.3.1\",\"1.0.0\"]}'\n";

/// Returns the entry that the installer inserts.
pub fn entry() -> Value {
    let mut entry: Value = serde_json::from_str(NETCONF).unwrap();
    entry["kubernetes"]["kubeconfig"] = json!("/etc/cni/net.d/ZZZ-linkerd-cni-kubeconfig");
    entry["capabilities"] = json!({"io.kubernetes.cri.pod-annotations": true});
    entry
}
