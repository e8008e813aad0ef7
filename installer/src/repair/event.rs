//! An Event about a pod: `kubectl describe pod` shows it.

use evergreen_kube::{Class, Client, Error, clock};
use serde_json::{Value, json};

use super::{flags::PROGRAM, pods::Pod};
use crate::cluster::requests;

const REASON: &str = "StartedWithoutRules";

/// Writes an Event. There are two APIs for Events: our chart permits one, Linkerd's chart the other. If RBAC denies both, the
/// Event is dropped. Returns false if the API server did not answer and a retry may help.
pub fn write(client: &mut Client, pod: &Pod, message: &str) -> bool {
    let now = clock::rfc3339(clock::now());
    let collection = |api: &str| format!("{api}/namespaces/{}/events", pod.namespace);
    let purpose = "write an Event";
    let is_denied = |error: &Error| error.class == Class::Forbidden;
    let written = requests::create(client, &collection("/api/v1"), &core(pod, message, &now), purpose);
    let written = match written {
        Err(error) if is_denied(&error) => requests::create(
            client,
            &collection("/apis/events.k8s.io/v1"),
            &events_v1(pod, message, &now),
            purpose,
        ),
        answer => answer,
    };
    written.map_or_else(|error| is_denied(&error), |_| true)
}

fn core(pod: &Pod, message: &str, now: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": REASON, "metadata": metadata(pod),
        "involvedObject": reference(pod), "message": message, "source": {"component": PROGRAM},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1})
}

/// An Event of `events.k8s.io/v1`, whose times have microseconds.
fn events_v1(pod: &Pod, message: &str, now: &str) -> Value {
    json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "type": "Warning", "reason": REASON,
        "metadata": metadata(pod), "regarding": reference(pod), "note": message, "action": "Repair",
        "eventTime": now.replace('Z', ".000000Z"), "reportingController": PROGRAM, "reportingInstance": PROGRAM})
}

/// `events.k8s.io/v1` rejects a name prefix that ends in a dot, which the kubelet uses for its Events.
fn metadata(pod: &Pod) -> Value {
    json!({"generateName": format!("{}-", pod.name), "namespace": pod.namespace})
}

fn reference(pod: &Pod) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid})
}
