//! Which pods are to be made anew. Pure.

use serde_json::Value;

/// The init container that finds out whether the redirection works.
const VALIDATOR: &str = "linkerd-network-validator";
/// What it ends with when it does not.
const NOT_REDIRECTED: i64 = 95;

/// A pod that runs without rules and cannot get them: its sandbox stays what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: only this very pod is deleted, never one that has followed under its name.
    pub uid: String,
    /// The uid of the controller that will make another one; without one the pod would be gone for good.
    pub controller: Option<String>,
}

/// Those in a list of pods whose validator has found no redirection. A pod that is ending is left alone: there a validator
/// ends so too, because it was told to.
pub fn stuck(list: &Value) -> Vec<Stuck> {
    let pods = list["items"].as_array().into_iter().flatten();
    pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null() && has_failed(pod))
        .filter_map(named)
        .collect()
}

fn has_failed(pod: &Value) -> bool {
    let statuses = pod["status"]["initContainerStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    statuses.filter(|s| s["name"] == VALIDATOR).any(|status| {
        // Now, or the time before: it may be waiting for its next start.
        let ended = |state: &str| status[state]["terminated"]["exitCode"].as_i64();
        ended("state").or_else(|| ended("lastState")) == Some(NOT_REDIRECTED)
    })
}

fn named(pod: &Value) -> Option<Stuck> {
    let metadata = &pod["metadata"];
    let text = |name: &str| metadata[name].as_str().map(str::to_owned);
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let controller = owners
        .filter(|o| o["controller"] == true)
        .find_map(|o| o["uid"].as_str());
    Some(Stuck {
        namespace: text("namespace")?,
        name: text("name")?,
        uid: text("uid")?,
        controller: controller.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(change: impl FnOnce(&mut Value)) -> Vec<Stuck> {
        let mut pod = json!({
            "metadata": {"namespace": "shop", "name": "web-0", "uid": "u",
                         "ownerReferences": [{"kind": "ReplicaSet", "uid": "rs", "controller": true}]},
            "status": {"initContainerStatuses": [
                {"name": "linkerd-network-validator", "lastState": {"terminated": {"exitCode": 95}}, "state": {"waiting": {}}}]}});
        change(&mut pod);
        stuck(&json!({"items": [pod]}))
    }

    #[test]
    fn a_validator_that_found_no_redirection_is_known_now_and_the_time_before() {
        let one = |controller: Option<&str>| {
            let [namespace, name, uid] = ["shop", "web-0", "u"].map(str::to_owned);
            vec![Stuck {
                namespace,
                name,
                uid,
                controller: controller.map(str::to_owned),
            }]
        };
        assert_eq!(found(|_| {}), one(Some("rs")));
        let status = "/status/initContainerStatuses/0";
        // A pod that is never restarted has no time before.
        assert_eq!(
            found(|p| *p.pointer_mut(status).unwrap() =
                json!({"name": "linkerd-network-validator", "state": {"terminated": {"exitCode": 95}}})),
            one(Some("rs"))
        );
        assert_eq!(found(|p| p["metadata"]["ownerReferences"] = json!([])), one(None));
    }

    #[test]
    fn every_other_pod_is_left_alone() {
        let status = "/status/initContainerStatuses/0";
        assert!(found(|p| p["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z")).is_empty());
        assert!(found(|p| p["status"] = json!({})).is_empty());
        assert!(found(|p| p.pointer_mut(status).unwrap()["name"] = json!("other")).is_empty());
        assert!(
            found(|p| p.pointer_mut(status).unwrap()["state"] = json!({"terminated": {"exitCode": 0}}))
                .is_empty()
        );
        assert!(
            found(|p| p.pointer_mut(status).unwrap()["lastState"] = json!({"terminated": {"exitCode": 1}}))
                .is_empty()
        );
        assert!(stuck(&json!({})).is_empty());
    }
}
