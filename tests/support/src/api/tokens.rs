//! TokenRequest: a token for an account, bound to a pod or a node that the server knows.

use serde_json::{Value, json};

use super::{
    Answer, State,
    identity::{Bound, rfc3339},
    objects::Resource,
};

/// What a POST to `serviceaccounts/token` is answered.
pub(crate) fn token_request(state: &mut State, resource: &Resource, body: &Value) -> Answer {
    let (namespace, account) = (
        resource.namespace.as_deref().unwrap_or_default(),
        resource.name.as_deref().unwrap_or_default(),
    );
    let spec = &body["spec"];
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(3600);
    if seconds < 600 {
        let message = format!(
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: {seconds}: \
             may not specify a duration less than 10 minutes"
        );
        return Answer::status(
            422,
            &message,
            "Invalid",
            r#"{"group":"authentication.k8s.io","kind":"TokenRequest"}"#,
        );
    }
    let reference = &spec["boundObjectRef"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut bound = None;
    if !reference.is_null() {
        let mut wanted = Bound {
            kind: text(&reference["kind"]),
            name: text(&reference["name"]),
            uid: text(&reference["uid"]),
        };
        match bound_uid(state, namespace, &wanted) {
            Ok(uid) => wanted.uid = uid,
            Err(answer) => return *answer,
        }
        bound = Some(wanted);
    }
    let audiences: Vec<String> = spec["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let (token, expires) = state
        .identities
        .mint(namespace, account, bound.as_ref(), &audiences, seconds);
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}");
    if let Some(stored) = state.objects.find(&path, false) {
        let uid = text(&stored["metadata"]["uid"]);
        state.identities.tie(&token, path, uid);
    }
    let answer = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": account, "namespace": namespace}, "spec": spec,
        "status": {"token": token, "expirationTimestamp": rfc3339(expires)}});
    Answer::json(201, &answer)
}

fn bound_uid(state: &State, namespace: &str, bound: &Bound) -> Result<String, Box<Answer>> {
    let (path, resource) = match bound.kind.as_str() {
        "Node" => (format!("/api/v1/nodes/{}", bound.name), "nodes"),
        "Pod" => (
            format!("/api/v1/namespaces/{namespace}/pods/{}", bound.name),
            "pods",
        ),
        kind => {
            let message = format!("cannot bind token to object of type /v1, Kind={kind}");
            return Err(Box::new(Answer::status(400, &message, "BadRequest", "")));
        }
    };
    let object = state
        .objects
        .find(&path, false)
        .ok_or_else(|| Box::new(Answer::not_found(resource, &bound.name)))?;
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    if !bound.uid.is_empty() && bound.uid != uid {
        let message = format!(
            "Operation cannot be fulfilled on {resource} \"{}\": the UID in the bound object reference ({}) does not \
             match the UID in record. The object might have been deleted and then recreated",
            bound.name, bound.uid
        );
        let details = json!({"name": bound.name, "kind": resource}).to_string();
        return Err(Box::new(Answer::status(409, &message, "Conflict", &details)));
    }
    Ok(uid.to_owned())
}
