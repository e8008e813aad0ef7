//! `/livez`, `/readyz` and `/metrics` of a running installer.

use std::fs;

use evergreen_test_support::api::Answer;

use crate::{
    cluster::{Cluster, get},
    node::CALICO,
};

#[test]
fn ready_requires_entry_and_accepted_credential() {
    let cluster = Cluster::new();
    fs::remove_file(cluster.node.net("10-calico.conflist")).unwrap();
    let mut installer = cluster.node.start();
    let ready = || get(&cluster, "/readyz");
    installer.until(&cluster.node, "/readyz names what is missing", || {
        ready().contains("no network yet")
    });
    assert!(ready().starts_with("HTTP/1.1 503 "), "{}", ready());
    assert!(get(&cluster, "/livez").starts_with("HTTP/1.1 200 "));
    fs::write(cluster.node.net("10-calico.conflist"), CALICO).unwrap();
    installer.until(&cluster.node, "the installer is ready", || {
        ready().starts_with("HTTP/1.1 200 ")
    });
    // An unloadable file sorts before ours: the runtime cannot start pods, so the node is not ready.
    fs::write(cluster.node.net("00-bad.conflist"), "{").unwrap();
    installer.until(&cluster.node, "the installer is not ready", || {
        ready().contains("00-bad.conflist")
    });
    fs::remove_file(cluster.node.net("00-bad.conflist")).unwrap();
    installer.until(&cluster.node, "the installer is ready again", || {
        ready().starts_with("HTTP/1.1 200 ")
    });
}

#[test]
fn rejected_credential_is_unready_with_reason() {
    let cluster = Cluster::new().with("EVERGREEN_TOKEN_SOURCE", "copy");
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    cluster.api.set_answer("POST", path, Answer::unauthorized());
    let mut installer = cluster.node.start_and_wait_for("10-calico.conflist");
    let ready = || get(&cluster, "/readyz");
    installer.until(&cluster.node, "/readyz reports it", || {
        ready().contains("the node's credential")
    });
    assert!(ready().starts_with("HTTP/1.1 503 "), "{}", ready());
    assert!(get(&cluster, "/metrics").contains("evergreen_install_credential_accepted 0"));
    cluster.api.clear_answers();
    installer.until(&cluster.node, "the installer is ready", || {
        ready().starts_with("HTTP/1.1 200 ")
    });
}

#[test]
fn metrics_report_conflist_credential_and_repairs() {
    let cluster = Cluster::new();
    let mut installer = cluster.start();
    fs::write(cluster.node.net("10-calico.conflist"), CALICO).unwrap();
    let repaired = "evergreen_install_repairs_total{file=\"/etc/cni/net.d/10-calico.conflist\"} 1";
    installer.until(&cluster.node, "the repair is counted", || {
        get(&cluster, "/metrics").contains(repaired)
    });
    let metrics = get(&cluster, "/metrics");
    for line in [
        "evergreen_install_ready 1",
        "evergreen_install_network{file=\"/etc/cni/net.d/10-calico.conflist\"} 1",
        "evergreen_install_credential_accepted 1",
        "evergreen_install_credential_ends_in_seconds ",
        "evergreen_install_ca_ends_in_seconds ",
        "evergreen_install_rewrites_held_back_total 0",
    ] {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
    // Prometheus format: each family has a TYPE line, each sample a name and a number.
    for line in metrics
        .split("\r\n\r\n")
        .nth(1)
        .unwrap()
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let family = name.split('{').next().unwrap();
        assert!(
            value.parse::<i64>().is_ok() && metrics.contains(&format!("# TYPE {family} ")),
            "{line}"
        );
    }
}
