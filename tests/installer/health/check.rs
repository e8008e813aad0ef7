//! `evergreen-install check`: reports what is wrong on a node and changes nothing.

use std::fs;

use crate::{cluster::Cluster, node::CALICO};

fn checked(cluster: &Cluster) -> (bool, String) {
    let before = cluster.node.stamps();
    let output = cluster.node.run(&["check"]);
    assert_eq!(cluster.node.stamps(), before, "check changes nothing");
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn healthy_node_has_no_fault() {
    let cluster = Cluster::new();
    let mut installer = cluster.start();
    installer.until(&cluster.node, "the token is on the node", || {
        cluster.has_node_token()
    });
    drop(installer);
    let (good, said) = checked(&cluster);
    assert!(good && !said.contains("FAULT"), "{said}");
    for line in [
        "ok    plugin",
        "ok    network",
        "ok    kubeconfig",
        "ok    token",
        "ok    ca",
        "ok    api server",
    ] {
        assert!(said.contains(line), "no {line} in\n{said}");
    }
    // The fake API server grants everything, which is reported but no fault.
    assert!(said.contains("permissions: not needed: list secrets"), "{said}");
}

#[test]
fn each_fault_is_named() {
    let cluster = Cluster::new();
    let (good, said) = checked(&cluster);
    assert!(
        !good && said.contains("FAULT plugin") && said.contains("FAULT network"),
        "{said}"
    );

    cluster.node.succeed(&["once"]);
    fs::write(cluster.node.net("10-calico.conflist"), CALICO).unwrap();
    assert!(
        checked(&cluster)
            .1
            .contains("FAULT network: our entry is missing from /etc/cni/net.d/10-calico.conflist")
    );

    cluster.node.succeed(&["once"]);
    fs::write(cluster.node.net("linkerd-cni.evergreen/ca.crt"), "").unwrap();
    let (good, said) = checked(&cluster);
    assert!(!good && said.contains("FAULT ca"), "{said}");

    cluster.node.succeed(&["once"]);
    cluster.api.forbid("get", "pods");
    let (good, said) = checked(&cluster);
    assert!(!good && said.contains("permissions: missing: get pods"), "{said}");
    cluster.api.allow("get", "pods");

    let ended = cluster.api.mint("linkerd-cni", "linkerd-cni", None, -7200);
    fs::write(cluster.node.net("linkerd-cni.evergreen/token"), ended).unwrap();
    let (good, said) = checked(&cluster);
    assert!(
        !good && said.contains(", expired ") && said.contains("FAULT api server"),
        "{said}"
    );
}
