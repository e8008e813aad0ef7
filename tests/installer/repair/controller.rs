//! The repair controller, started by the program name that Linkerd's chart uses.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use evergreen_test_support::{api::Answer, budget::within, http};
use serde_json::{Value, json};

use crate::{cluster::Cluster, node::PATIENCE};

pub struct Controller {
    child: Child,
    log: PathBuf,
}

impl Controller {
    /// Starts a controller for the pods of node1.
    pub fn start(cluster: &Cluster) -> Self {
        Self::start_logging(cluster, "plain")
    }

    fn start_logging(cluster: &Cluster, format: &str) -> Self {
        let program = cluster.node.path("linkerd-cni-repair-controller");
        symlink(env!("CARGO_BIN_EXE_evergreen-install"), &program).unwrap();
        let log = cluster.node.path("repair-log");
        let variables = cluster.node.command(&[]);
        let child = Command::new(program)
            .args([
                "--admin-addr",
                "127.0.0.1:0",
                "--log-format",
                format,
                "--log-level",
                "info",
            ])
            .env_clear()
            .envs(
                variables
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("LINKERD_CNI_REPAIR_CONTROLLER_NODE_NAME", "node1")
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Returns the whole response to a path; empty if there is none.
    pub fn get(&self, path: &str) -> String {
        let log = self.log();
        let address = log
            .lines()
            .find_map(|line| line.split("url=http://127.0.0.1:").nth(1));
        let response = address.and_then(|port| http::get(port.trim().parse().ok()?, path).ok());
        response.unwrap_or_default()
    }

    /// Waits until a condition holds.
    pub fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(
                start.elapsed() < within(PATIENCE),
                "not yet: {what}\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends SIGTERM and expects a timely exit with code 0.
    pub fn end(&mut self) {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(asked.success());
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return assert!(status.success(), "{status}\n{}", self.log());
            }
            assert!(
                start.elapsed() < within(PATIENCE),
                "the controller does not exit\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pod(cluster: &Cluster, name: &str, exit_code: i64, controlled: bool) -> Value {
    let owners = if controlled {
        json!([{"kind": "ReplicaSet", "uid": format!("rs-{name}"), "controller": true}])
    } else {
        json!([])
    };
    let pod = json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "ownerReferences": owners},
        "status": {"initContainerStatuses": [{"name": "linkerd-network-validator",
            "state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": exit_code}}}]}});
    cluster.api.put_pod("shop", name, pod.clone());
    pod
}

#[test]
fn only_the_unmeshed_pod_is_deleted() {
    let cluster = Cluster::new();
    let pods = [
        pod(&cluster, "stuck", 95, true),
        pod(&cluster, "stuck-and-alone", 95, false),
        pod(&cluster, "fine", 0, true),
    ];
    // The list is stale: another pod of the same name exists by now, and must not be deleted.
    let mut replaced = pod(&cluster, "replaced", 95, true);
    replaced["metadata"]["uid"] = "uid-of-the-previous".into();
    let items: Vec<Value> = pods.into_iter().chain([replaced]).collect();
    cluster.api.add_route(move |request| {
        let wanted =
            request.path == "/api/v1/pods" && request.query.contains("fieldSelector=spec.nodeName%3Dnode1");
        wanted.then(|| {
            Answer::json(
                200,
                &json!({"kind": "PodList", "apiVersion": "v1", "items": items}),
            )
        })
    });
    let mut controller = Controller::start(&cluster);
    let there = |name: &str| {
        cluster
            .api
            .object(&format!("/api/v1/namespaces/shop/pods/{name}"))
            .is_some()
    };
    controller.until("the stuck pod is deleted", || !there("stuck"));
    controller.until("the controller is ready", || {
        controller.get("/ready").starts_with("HTTP/1.1 200 ")
    });
    controller.until("the metrics count both pods", || {
        let metrics = controller.get("/metrics");
        metrics.contains("deleted_total 1") && metrics.contains("failed_total 1")
    });
    assert!(there("stuck-and-alone") && there("fine") && there("replaced"));
    assert!(controller.get("/live").starts_with("HTTP/1.1 200 "));
    let events = cluster.api.objects_under("/api/v1/namespaces/shop/events");
    assert!(
        events.iter().any(|e| e["involvedObject"]["uid"] == "uid-stuck"),
        "{events:?}"
    );
    // As under Linkerd's chart: nothing is mounted, and the log says what that means.
    assert!(
        controller.log().contains(
            r#"msg="libcni results directory not mounted" path=/var/lib/cni/results reason="only pods whose"#
        ),
        "{}",
        controller.log()
    );
    controller.end();
}

#[test]
fn node_full_of_large_pods_is_listed() {
    let cluster = Cluster::new();
    // 20 MiB: 250 pods with 80 KiB of annotations each. The last one is stuck.
    let ballast = "x".repeat(80 << 10);
    for n in 0..250 {
        let mut pod = pod(
            &cluster,
            &format!("web-{n:03}"),
            if n == 249 { 95 } else { 0 },
            true,
        );
        pod["metadata"]["annotations"] = json!({"ballast": ballast});
        pod["spec"]["nodeName"] = json!("node1");
        cluster.api.put_pod("shop", &format!("web-{n:03}"), pod);
    }
    let controller = Controller::start(&cluster);
    controller.until("the stuck pod is deleted", || {
        cluster
            .api
            .object("/api/v1/namespaces/shop/pods/web-249")
            .is_none()
    });
    assert_eq!(
        cluster.api.objects_under("/api/v1/namespaces/shop/pods/").len(),
        249
    );
}

#[test]
fn linkerd_chart_events_use_events_k8s_io() {
    let cluster = Cluster::new();
    let mut stuck = pod(&cluster, "stuck", 95, true);
    stuck["spec"]["nodeName"] = json!("node1");
    cluster.api.put_pod("shop", "stuck", stuck);
    let core = "/api/v1/namespaces/shop/events";
    let refusal = "events is forbidden: User \"system:serviceaccount:linkerd-cni:linkerd-cni\" cannot create resource \
                   \"events\" in API group \"\" in the namespace \"shop\"";
    cluster
        .api
        .set_answer("POST", core, Answer::status(403, refusal, "Forbidden", "{}"));
    let controller = Controller::start(&cluster);
    let events = || {
        cluster
            .api
            .objects_under("/apis/events.k8s.io/v1/namespaces/shop/events")
    };
    controller.until("an Event exists", || !events().is_empty());
    let event = events().remove(0);
    assert_eq!(event["regarding"]["uid"], "uid-stuck");
    // What a real API server accepts: a time with microseconds, and a name prefix that does not end in a dot.
    let time = event["eventTime"].as_str().unwrap();
    assert!(time.len() == 27 && time.ends_with(".000000Z"), "{time}");
    assert_eq!(event["metadata"]["generateName"], "stuck-");
}

#[test]
fn running_pod_with_recreated_sandbox_is_deleted() {
    let cluster = Cluster::new();
    let mut pod = pod(&cluster, "rebooted", 95, true);
    pod["spec"]["nodeName"] = json!("node1");
    // As the kubelet reports it (`getPhase`): the containers ended with the previous sandbox, none waits for its first start.
    pod["status"]["phase"] = json!("Running");
    pod["status"]["containerStatuses"] =
        json!([{"name": "app", "state": {"terminated": {"exitCode": 255, "reason": "Unknown"}}}]);
    cluster.api.put_pod("shop", "rebooted", pod);
    let controller = Controller::start(&cluster);
    controller.until("the pod is deleted", || {
        let path = "/api/v1/namespaces/shop/pods/rebooted";
        cluster.api.object(path).is_none()
    });
}

#[test]
fn log_format_json_applies_to_every_line() {
    let cluster = Cluster::new();
    let mut stuck = pod(&cluster, "stuck", 95, true);
    stuck["spec"]["nodeName"] = json!("node1");
    cluster.api.put_pod("shop", "stuck", stuck);
    let mut controller = Controller::start_logging(&cluster, "json");
    controller.until("the deletion is logged", || {
        controller.log().contains("pod deleted")
    });
    controller.end();
    let lines: Vec<Value> = controller
        .log()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect();
    let deleted = lines.iter().find(|line| line["msg"] == "pod deleted").unwrap();
    assert_eq!(deleted["component"], "repair");
    assert_eq!(deleted["level"], "info");
    assert_eq!(deleted["pod"], "shop/stuck");
    assert_eq!(deleted["uid"], "uid-stuck");
    assert!(deleted["time"].is_string() && deleted["reason"].is_string());
}
