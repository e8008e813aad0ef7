//! The node's pods as the API server lists them, as far as it matters here, and which of them ask for rules. Pure.

use std::collections::BTreeMap;

use evergreen_cni::policy::intent::{MARKS, PROXY_INIT};
use evergreen_kube::pod::PROXY;
use serde::Deserialize;

/// The init container that finds out whether the redirection works.
const VALIDATOR: &str = "linkerd-network-validator";
/// What it ends with when it does not.
const NOT_REDIRECTED: i64 = 95;
/// On the copy of a static pod that the API server has: what the kubelet calls the pod by, instead of its uid.
const STATIC_UID: &str = "kubernetes.io/config.mirror";

/// A pod that is not ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: only this very pod is deleted, never one that has followed under its name.
    pub uid: String,
    /// The uid that the kubelet calls it by.
    pub kubelet_uid: String,
    /// The uid of the controller that will make another one; without one the pod would be gone for good.
    pub controller: Option<String>,
    /// That is a Job: what the pod has done is lost when it goes, and the Job may fail for it.
    pub is_of_job: bool,
    /// Its validator has found no redirection. (The validator of a pod that is ending ends so too, because it was told to.)
    pub not_redirected: bool,
    /// Its validator has not ended well, or not yet.
    pub validating: bool,
    /// The plugin would program it, and it has no validator that would find out.
    pub lacks_validator: bool,
    /// It runs.
    pub runs: bool,
}

/// `PodList`, as far as it is read: 250 pods may take many megabytes. Null, absent and empty are one.
#[derive(Debug, Default, Deserialize)]
pub struct List {
    items: Option<Vec<RawPod>>,
}

#[derive(Debug, Deserialize)]
struct RawPod {
    metadata: Option<RawMetadata>,
    spec: Option<RawSpec>,
    status: Option<RawStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    deletion_timestamp: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<RawOwner>>,
}

#[derive(Debug, Deserialize)]
struct RawOwner {
    kind: Option<String>,
    uid: Option<String>,
    controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    host_network: Option<bool>,
    containers: Option<Vec<RawContainer>>,
    init_containers: Option<Vec<RawContainer>>,
}

#[derive(Debug, Deserialize)]
struct RawContainer {
    name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    phase: Option<String>,
    init_container_statuses: Option<Vec<RawContainerStatus>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainerStatus {
    name: Option<String>,
    state: Option<RawState>,
    last_state: Option<RawState>,
}

#[derive(Debug, Deserialize)]
struct RawState {
    terminated: Option<RawTerminated>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTerminated {
    exit_code: Option<i64>,
}

impl List {
    /// The pods that are not ending.
    pub fn pods(self) -> Vec<Pod> {
        self.items.into_iter().flatten().filter_map(pod).collect()
    }
}

fn pod(raw: RawPod) -> Option<Pod> {
    let metadata = raw.metadata.unwrap_or_default();
    let (spec, status) = (raw.spec.unwrap_or_default(), raw.status.unwrap_or_default());
    if metadata.deletion_timestamp.is_some() {
        return None;
    }
    let annotations = metadata.annotations.unwrap_or_default();
    let uid = metadata.uid?;
    let controller = controller(metadata.owner_references.unwrap_or_default());
    Some(Pod {
        namespace: metadata.namespace?,
        name: metadata.name?,
        kubelet_uid: annotations.get(STATIC_UID).unwrap_or(&uid).clone(),
        uid,
        is_of_job: controller
            .as_ref()
            .is_some_and(|c| c.kind.as_deref() == Some("Job")),
        controller: controller.and_then(|c| c.uid),
        not_redirected: status.phase.as_deref() != Some("Failed") && has_failed(&status),
        validating: validators(&status).any(|v| exit_code(&v.state) != Some(0)),
        lacks_validator: MARKS.iter().any(|mark| annotations.contains_key(*mark)) && wants_rules(&spec),
        runs: status.phase.as_deref() == Some("Running"),
    })
}

/// A static pod's is its node, which makes nothing anew when the API server's copy is deleted.
fn controller(owners: Vec<RawOwner>) -> Option<RawOwner> {
    let mut owners = owners.into_iter();
    owners.find(|o| o.controller == Some(true) && o.kind.as_deref() != Some("Node"))
}

fn has_failed(status: &RawStatus) -> bool {
    // Now, or the time before: it may be waiting for its next start.
    validators(status)
        .any(|v| exit_code(&v.state).or_else(|| exit_code(&v.last_state)) == Some(NOT_REDIRECTED))
}

fn validators(status: &RawStatus) -> impl Iterator<Item = &RawContainerStatus> {
    let statuses = status.init_container_statuses.iter().flatten();
    statuses.filter(|s| s.name.as_deref() == Some(VALIDATOR))
}

/// What it ended with; none for one that has not.
fn exit_code(state: &Option<RawState>) -> Option<i64> {
    state.as_ref()?.terminated.as_ref()?.exit_code
}

/// As the plugin decides: a proxy, among the containers or as a native sidecar, and nothing that programs the rules
/// itself. A validator has seen the redirection work, or the pod would not run.
fn wants_rules(spec: &RawSpec) -> bool {
    let is = |container: &RawContainer, name: &str| container.name.as_deref() == Some(name);
    let inits = || spec.init_containers.iter().flatten();
    let mut all = spec.containers.iter().flatten().chain(inits());
    spec.host_network != Some(true)
        && all.any(|c| is(c, PROXY))
        && !inits().any(|c| is(c, PROXY_INIT) || is(c, VALIDATOR))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const STATUS: &str = "/status/initContainerStatuses/0";

    fn list(pod: &Value) -> Vec<Pod> {
        let list: List = serde_json::from_value(json!({"items": [pod]})).unwrap();
        list.pods()
    }

    fn stuck(change: impl FnOnce(&mut Value)) -> bool {
        let mut pod = json!({
            "metadata": {"namespace": "shop", "name": "web-0", "uid": "u"},
            "status": {"initContainerStatuses": [
                {"name": "linkerd-network-validator", "lastState": {"terminated": {"exitCode": 95}}, "state": {"waiting": {}}}]}});
        change(&mut pod);
        list(&pod).iter().any(|pod| pod.not_redirected)
    }

    fn lacks_validator(change: impl FnOnce(&mut Value)) -> bool {
        let mut pod = json!({
            "metadata": {"namespace": "shop", "name": "web-0", "uid": "u",
                         "annotations": {"linkerd.io/proxy-version": "edge"}},
            "spec": {"containers": [{"name": "app"}, {"name": "linkerd-proxy"}], "initContainers": [{"name": "migrate"}]},
            "status": {"phase": "Running"}});
        change(&mut pod);
        list(&pod).iter().any(|pod| pod.lacks_validator && pod.runs)
    }

    #[test]
    fn a_validator_that_found_no_redirection_is_known_now_and_the_time_before() {
        assert!(stuck(|_| {}));
        // A pod that is never restarted has no time before.
        assert!(stuck(
            |p| *p.pointer_mut(STATUS).unwrap() =
                json!({"name": "linkerd-network-validator", "state": {"terminated": {"exitCode": 95}}})
        ));
        assert!(!stuck(
            |p| p["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z")
        ));
        assert!(!stuck(|p| p["status"] = json!({})));
        assert!(!stuck(|p| p.pointer_mut(STATUS).unwrap()["name"] = json!("other")));
        assert!(!stuck(
            |p| p.pointer_mut(STATUS).unwrap()["state"] = json!({"terminated": {"exitCode": 0}})
        ));
        assert!(!stuck(
            |p| p.pointer_mut(STATUS).unwrap()["lastState"] = json!({"terminated": {"exitCode": 1}})
        ));
    }

    #[test]
    fn a_running_pod_with_a_proxy_and_nobody_to_tell_asks_for_rules() {
        assert!(lacks_validator(|_| {}));
        let sidecar = json!({"containers": [{"name": "app"}], "initContainers": [{"name": "linkerd-proxy"}]});
        assert!(lacks_validator(|p| p["spec"] = sidecar));
        for (field, value) in [
            ("/metadata/annotations", json!({"linkerd.io/inject": "enabled"})),
            ("/spec/containers", json!([{"name": "app"}])),
            ("/spec/initContainers", json!([{"name": "linkerd-init"}])),
            (
                "/spec/initContainers",
                json!([{"name": "linkerd-network-validator"}]),
            ),
            ("/status/phase", json!("Pending")),
            ("/status/phase", json!("Succeeded")),
            ("/status", Value::Null),
            ("/spec", Value::Null),
        ] {
            assert!(
                !lacks_validator(|p| *p.pointer_mut(field).unwrap() = value.clone()),
                "{field} {value}"
            );
        }
        assert!(!lacks_validator(|p| p["spec"]["hostNetwork"] = json!(true)));
        assert!(!lacks_validator(
            |p| p["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z")
        ));
    }

    #[test]
    fn a_controller_is_who_makes_the_pod_anew_and_a_node_is_none() {
        let of = |owners: Value| {
            let metadata = json!({"namespace": "shop", "name": "w", "uid": "u", "ownerReferences": owners});
            list(&json!({"metadata": metadata})).remove(0).controller
        };
        let owner =
            |kind: &str, controller: bool| json!({"kind": kind, "uid": "rs", "controller": controller});
        assert_eq!(of(json!([owner("ReplicaSet", true)])), Some("rs".to_owned()));
        assert_eq!(of(json!([owner("ReplicaSet", false)])), None);
        assert_eq!(of(json!([owner("Node", true)])), None);
        assert_eq!(of(Value::Null), None);
    }

    #[test]
    fn a_static_pod_is_known_by_the_kubelets_uid() {
        let metadata =
            json!({"namespace": "shop", "name": "w", "uid": "u", "annotations": {STATIC_UID: "hash"}});
        let pod = list(&json!({"metadata": metadata})).remove(0);
        assert_eq!((&*pod.uid, &*pod.kubelet_uid), ("u", "hash"));
    }
}
