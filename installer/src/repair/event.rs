//! An Event about a pod, where a person looks first.

use evergreen_kube::{Class, Client, Error, clock};
use serde_json::{Value, json};

use super::{PROGRAM, pods::Pod};
use crate::cluster::requests;

const REASON: &str = "StartedWithoutRules";

/// Writes it. Our chart gives the right for one of the two APIs that take Events, Linkerd's for the other; without either
/// nothing is lost. False when the API server could not be asked: once more may help.
pub fn write(client: &mut Client, pod: &Pod, message: &str) -> bool {
    let now = clock::rfc3339(clock::now());
    let in_namespace = |api: &str| format!("{api}/namespaces/{}/events", pod.namespace);
    let purpose = "write an Event";
    let refused = |error: &Error| error.class == Class::Forbidden;
    let written = requests::create(
        client,
        &in_namespace("/api/v1"),
        &core(pod, message, &now),
        purpose,
    );
    let written = match written {
        Err(error) if refused(&error) => requests::create(
            client,
            &in_namespace("/apis/events.k8s.io/v1"),
            &newer(pod, message, &now),
            purpose,
        ),
        answer => answer,
    };
    written.map_or_else(|error| refused(&error), |_| true)
}

fn core(pod: &Pod, message: &str, now: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": REASON, "metadata": metadata(pod),
        "involvedObject": reference(pod), "message": message, "source": {"component": PROGRAM},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1})
}

/// Of `events.k8s.io`, whose times have microseconds.
fn newer(pod: &Pod, message: &str, now: &str) -> Value {
    json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "type": "Warning", "reason": REASON,
        "metadata": metadata(pod), "regarding": reference(pod), "note": message, "action": "Repair",
        "eventTime": now.replace('Z', ".000000Z"), "reportingController": PROGRAM, "reportingInstance": PROGRAM})
}

/// The newer API refuses a stem that ends in a dot, as kubelet's names of Events have it.
fn metadata(pod: &Pod) -> Value {
    json!({"generateName": format!("{}-", pod.name), "namespace": pod.namespace})
}

fn reference(pod: &Pod) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid})
}
