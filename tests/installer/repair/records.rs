//! Pods without rules and without a validator: the repair controller finds them in libcni's records, which `cnitool`
//! writes here.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use evergreen_test_support::{
    api::Answer,
    run::{cnitool, with_cni_cache},
};
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    node::{CALICO, NETCONF, Node},
    repair::controller::Controller,
};

/// Stands for every plugin: returns a result for ADD.
const PLUGIN: &str = "#!/bin/sh\ncat >/dev/null\n\
    [ \"$CNI_COMMAND\" = ADD ] && echo '{\"cniVersion\":\"0.3.1\",\"interfaces\":[],\"ips\":[]}'\nexit 0\n";

/// A node with libcni's records, and the API server that holds its pods.
struct World(Cluster);

impl World {
    /// Creates a node whose conflist has our entry.
    fn new() -> Self {
        let world = Self(Cluster::new());
        fs::create_dir_all(world.0.node.path("host/var/lib/cni/results")).unwrap();
        for name in ["calico", "portmap", "linkerd-cni"] {
            fs::write(world.0.node.bin(name), PLUGIN).unwrap();
            fs::set_permissions(world.0.node.bin(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(world.0.node.net("10-calico.conflist"), with_our_entry(CALICO)).unwrap();
        world
    }

    /// Creates a running pod with a proxy and a controller, and applies a change to it.
    fn pod(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut pod = json!({"kind": "Pod", "apiVersion": "v1",
            "metadata": {"uid": format!("uid-{name}"), "annotations": {"linkerd.io/proxy-version": "edge"},
                         "ownerReferences": [{"kind": "ReplicaSet", "uid": format!("rs-{name}"), "controller": true}]},
            "spec": {"nodeName": "node1", "containers": [{"name": "linkerd-proxy"}, {"name": "app"}]},
            "status": {"phase": "Running"}});
        change(&mut pod);
        self.0.api.put_pod("shop", name, pod);
    }

    /// Attaches a sandbox of this pod to the network of a conflist, with libcni.
    fn attach(&self, pod: &str, sandbox: &str, list: &str) {
        let lists = self.0.node.path("lists");
        let _ = fs::remove_dir_all(&lists);
        fs::create_dir(&lists).unwrap();
        fs::write(lists.join("10-list.conflist"), list).unwrap();
        let name: Value = serde_json::from_str(list).unwrap();
        let cache = self.0.node.path("host/var/lib/cni");
        let output = with_cni_cache(&cache, &cnitool("cnitool", "v1.3.0"))
            .args(["add", name["name"].as_str().unwrap(), sandbox])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("NETCONFPATH", lists)
            .env("CNI_PATH", self.0.node.bin(""))
            .env(
                "CNI_ARGS",
                format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={pod};K8S_POD_UID=uid-{pod}"),
            )
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "attach {pod}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn has(&self, pod: &str) -> bool {
        let path = format!("/api/v1/namespaces/shop/pods/{pod}");
        self.0.api.object(&path).is_some()
    }

    /// Returns the number of lists of all pods of the node, whatever their phase.
    fn lists_of_all(&self) -> usize {
        let seen = self.0.api.requests();
        let lists = seen.iter().filter(|s| s.path == "/api/v1/pods");
        lists.filter(|s| !s.query.contains("status.phase")).count()
    }

    fn events_of(&self, pod: &str) -> Vec<Value> {
        let mut events = self.0.api.objects_under("/api/v1/namespaces/shop/events");
        events.retain(|event| event["involvedObject"]["name"] == pod);
        events
    }
}

fn with_our_entry(list: &str) -> String {
    let mut list: Value = serde_json::from_str(list).unwrap();
    let ours = json!({"type": "linkerd-cni", "linkerd": {}});
    list["plugins"].as_array_mut().unwrap().push(ours);
    list.to_string()
}

#[test]
fn only_the_unmeshed_unvalidated_pod_is_evicted() {
    let world = World::new();
    world.pod("without", |_| {});
    world.attach("without", "/ns/1", CALICO);
    world.pod("alone", |p| p["metadata"]["ownerReferences"] = json!([]));
    world.attach("alone", "/ns/2", CALICO);
    // Evicting a Job's pod would lose its work.
    world.pod("job", |p| {
        p["metadata"]["ownerReferences"][0]["kind"] = json!("Job")
    });
    world.attach("job", "/ns/10", CALICO);
    let stay = [
        "with",
        "plain",
        "own-init",
        "validated",
        "recreated",
        "elsewhere",
        "unknown",
    ];
    world.pod("with", |_| {});
    world.attach("with", "/ns/3", &with_our_entry(CALICO));
    world.pod("plain", |p| p["spec"]["containers"] = json!([{"name": "app"}]));
    world.attach("plain", "/ns/4", CALICO);
    world.pod("own-init", |p| {
        p["spec"]["initContainers"] = json!([{"name": "linkerd-init"}])
    });
    world.attach("own-init", "/ns/5", CALICO);
    world.pod("validated", |p| {
        p["spec"]["initContainers"] = json!([{"name": "linkerd-network-validator"}])
    });
    world.attach("validated", "/ns/6", CALICO);
    world.pod("recreated", |_| {});
    world.attach("recreated", "/ns/7", CALICO);
    world.attach("recreated", "/ns/8", &with_our_entry(CALICO));
    // A network without our entry: recreating the pod would not help.
    world.pod("elsewhere", |_| {});
    world.attach("elsewhere", "/ns/9", &CALICO.replace("k8s-pod-network", "other"));
    world.pod("unknown", |_| {});

    let controller = Controller::start(&world.0);
    controller.until("the pod is evicted", || !world.has("without"));
    controller.until("pods that are kept have an Event", || {
        ["alone", "job"]
            .iter()
            .all(|pod| !world.events_of(pod).is_empty())
    });
    controller.until("the metrics count all pods", || {
        let metrics = controller.get("/metrics");
        metrics.contains("deleted_total 1") && metrics.contains("without_rules 3")
    });
    assert!(world.has("alone") && world.has("job"));
    for pod in stay {
        assert!(world.has(pod), "{pod} is gone\n{}", controller.log());
        assert!(
            world.events_of(pod).is_empty(),
            "{pod}: {:?}",
            world.events_of(pod)
        );
    }
    assert_eq!(world.events_of("without").len(), 1);
    assert!(
        controller
            .log()
            .contains(r#"msg="libcni results directory found" path=/var/lib/cni/results"#),
        "{}",
        controller.log()
    );
    // The next reconcile pass.
    controller.until("two pods are left", || {
        controller.get("/metrics").contains("without_rules 2")
    });
    for pod in ["alone", "job"] {
        assert_eq!(world.events_of(pod).len(), 1, "{pod}: one Event");
    }
}

#[test]
fn pod_disruption_budget_is_obeyed() {
    let world = World::new();
    world.pod("without", |_| {});
    world.attach("without", "/ns/1", CALICO);
    let refusal = Answer::status(
        429,
        "Cannot evict pod as it would violate the pod's disruption budget.",
        "TooManyRequests",
        r#"{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web needs 1 healthy pods"}]}"#,
    );
    let path = "/api/v1/namespaces/shop/pods/without/eviction";
    world.0.api.set_answer("POST", path, refusal);
    let controller = Controller::start(&world.0);
    controller.until("the eviction has been tried", || {
        controller
            .log()
            .contains(r#"msg="eviction refused" pod=shop/without"#)
    });
    assert!(world.has("without"));
    let metrics = controller.get("/metrics");
    assert!(
        metrics.contains("failed_total 0") && metrics.contains("without_rules 1"),
        "{metrics}"
    );
}

#[test]
fn blocked_evictions_do_not_delay_other_events() {
    let world = World::new();
    let refusal = Answer::status(429, "It would violate the budget.", "TooManyRequests", "{}");
    // Sandboxes are sorted by ID, which `cnitool` derives from the namespace: this one is the last.
    world.pod("alone", |p| p["metadata"]["ownerReferences"] = json!([]));
    world.attach("alone", "/ns/9", CALICO);
    for n in [5, 6, 4, 7] {
        let name = format!("forbidden-{n}");
        world.pod(&name, |_| {});
        world.attach(&name, &format!("/ns/{n}"), CALICO);
        let path = format!("/api/v1/namespaces/shop/pods/{name}/eviction");
        world.0.api.set_answer("POST", &path, refusal.clone());
    }
    let controller = Controller::start(&world.0);
    controller.until("it has an Event", || !world.events_of("alone").is_empty());
    assert_eq!(
        controller
            .log()
            .matches(r#"msg="eviction refused" pod=shop/forbidden-"#)
            .count(),
        4
    );
}

#[test]
fn folder_without_records_is_reported() {
    let world = World::new();
    world.pod("unknown", |_| {});
    let controller = Controller::start(&world.0);
    controller.until("it is logged", || {
        controller
            .log()
            .contains("is this the runtime's libcni results directory (EVERGREEN_CNI_RESULTS_DIR)?")
    });
    assert!(world.has("unknown"));
}

#[test]
fn inserting_entry_warns_about_older_pods() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let said = |node: &Node| node.succeed(&["once"]).contains("repairController.enabled");
    assert!(said(&node), "a first installation");
    assert!(!said(&node), "nothing to do");
    fs::write(node.net("10-calico.conflist"), CALICO).unwrap();
    assert!(said(&node), "a neighbour has written its list without our entry");
    let node = node.with("CNI_NETWORK_CONFIG", &NETCONF.replace("2102", "2103"));
    assert!(!said(&node), "our entry was in, only older");
}

#[test]
fn sigterm_ends_controller_despite_pending_evictions() {
    let world = World::new();
    world.pod("without", |_| {});
    world.attach("without", "/ns/1", CALICO);
    let mut controller = Controller::start(&world.0);
    // The first pass finds a suspect, so the second comes soon. From then on lists are denied, which takes a second each.
    world.0.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter().any(|s| s.path == "/api/v1/pods" && s.status == 200)
    });
    world.0.api.forbid("list", "pods");
    world.0.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter()
            .filter(|s| s.path == "/api/v1/pods" && s.status == 403)
            .count()
            > 2
    });
    controller.end();
}

#[test]
fn unmeshed_new_sandbox_with_failed_validator_is_deleted() {
    let world = World::new();
    let validator = |state: Value| {
        json!({"phase": "Running", "initContainerStatuses": [{"name": "linkerd-network-validator", "state": state}],
            "containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 255, "reason": "Unknown"}}}]})
    };
    let rebooted = |state: Value| {
        world.pod("rebooted", |p| {
            p["spec"]["initContainers"] = json!([{"name": "linkerd-network-validator"}]);
            p["status"] = validator(state);
        });
    };
    let controller = Controller::start(&world.0);
    // The first list covers all pods; this one follows.
    world.0.api.wait_for(Duration::from_secs(10), |seen| {
        seen.iter().any(|s| s.path == "/api/v1/pods")
    });
    rebooted(json!({"running": {}}));
    world.attach("rebooted", "/ns/1", CALICO);
    controller.until("all pods are listed again", || world.lists_of_all() >= 2);
    rebooted(json!({"terminated": {"exitCode": 95}}));
    controller.until("the pod is deleted", || !world.has("rebooted"));
}
