//! The node's pods as the API server lists them, and which of them need rules. Pure.

use evergreen_kube::{
    object::{Object, Owner},
    pod::{self, PodSpec, is_marked},
};
use serde::Deserialize;

/// The init container that checks whether the redirection works.
const VALIDATOR: &str = "linkerd-network-validator";
/// The validator's exit code when it finds no redirection.
const NOT_REDIRECTED: i64 = 95;

/// A pod that is not terminating.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`: a delete or eviction names it, so that a successor of the same name is never hit.
    pub uid: String,
    /// The UID that the kubelet uses for the pod.
    pub kubelet_uid: String,
    /// The UID of the controller that recreates the pod; without one the pod would be gone for good.
    pub controller: Option<String>,
    /// True if the controller is a Job: deleting the pod loses its work and may fail the Job.
    pub is_of_job: bool,
    /// True if its validator found no redirection. (The validator of a terminating pod exits with the same code.)
    pub not_redirected: bool,
    /// True until its validator has succeeded.
    pub validating: bool,
    /// True if the plugin would program the pod and no validator checks the result.
    pub lacks_validator: bool,
    /// True if its phase is `Running`.
    pub runs: bool,
}

/// `PodList`, with only the fields that are used: 250 pods may be many megabytes.
#[derive(Default, Deserialize)]
pub struct List {
    items: Option<Vec<Object<PodSpec, Status>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: Option<String>,
    state: Option<State>,
    last_state: Option<State>,
}

#[derive(Deserialize)]
struct State {
    terminated: Option<Terminated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    exit_code: Option<i64>,
}

impl Pod {
    /// `namespace/name`, for people.
    pub fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl List {
    /// Returns the pods that are not terminating.
    pub fn pods(self) -> Vec<Pod> {
        self.items.into_iter().flatten().filter_map(pod).collect()
    }
}

fn pod(raw: Object<PodSpec, Status>) -> Option<Pod> {
    let mut metadata = raw.metadata?;
    if metadata.deletion_timestamp.is_some() {
        return None;
    }
    let (spec, status) = (raw.spec.unwrap_or_default(), raw.status.unwrap_or_default());
    let (namespace, name) = (metadata.namespace.take()?, metadata.name.take()?);
    let controller = controller(metadata.owner_references.take().unwrap_or_default());
    let host_network = spec.host_network == Some(true);
    let pod = pod::Pod::new(metadata, spec);
    if pod.uid.is_empty() {
        return None;
    }
    Some(Pod {
        namespace,
        name,
        kubelet_uid: pod.kubelet_uid().to_owned(),
        is_of_job: controller
            .as_ref()
            .is_some_and(|c| c.kind.as_deref() == Some("Job")),
        controller: controller.and_then(|c| c.uid),
        not_redirected: status.phase.as_deref() != Some("Failed") && has_failed(&status),
        validating: validators(&status).any(|v| exit_code(&v.state) != Some(0)),
        // A pod with a validator runs only after the validator has seen the redirection work.
        lacks_validator: is_marked(&pod.annotations)
            && !host_network
            && pod.proxy().is_some()
            && !pod.has_init_container(VALIDATOR),
        runs: status.phase.as_deref() == Some("Running"),
        uid: pod.uid,
    })
}

/// The owner that recreates the pod. The owner of a static pod is its Node, which recreates nothing when the copy that
/// the API server has is deleted.
fn controller(owners: Vec<Owner>) -> Option<Owner> {
    let mut owners = owners.into_iter();
    owners.find(|o| o.controller == Some(true) && o.kind.as_deref() != Some("Node"))
}

fn has_failed(status: &Status) -> bool {
    // A validator that waits for its next start has its exit code in `lastState`.
    validators(status)
        .any(|v| exit_code(&v.state).or_else(|| exit_code(&v.last_state)) == Some(NOT_REDIRECTED))
}

fn validators(status: &Status) -> impl Iterator<Item = &ContainerStatus> {
    let statuses = status.init_container_statuses.iter().flatten();
    statuses.filter(|s| s.name.as_deref() == Some(VALIDATOR))
}

/// Returns the exit code of a container; none while it has not ended.
fn exit_code(state: &Option<State>) -> Option<i64> {
    state.as_ref()?.terminated.as_ref()?.exit_code
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
    fn failed_validator_counts_while_it_waits_to_restart() {
        assert!(stuck(|_| {}));
        // A validator that is never restarted has no `lastState`.
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
    fn running_meshed_pod_without_validator_needs_rules() {
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
    fn node_is_not_a_controller() {
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
    fn static_pod_has_the_kubelets_uid() {
        let metadata = json!({"namespace": "shop", "name": "w", "uid": "u", "annotations": {"kubernetes.io/config.mirror": "hash"}});
        let pod = list(&json!({"metadata": metadata})).remove(0);
        assert_eq!((&*pod.uid, &*pod.kubelet_uid), ("u", "hash"));
    }
}
