//! From a request to its answer, in the order a real API server goes: scripts of the test first, then who is asking,
//! whether they may, and what they asked for.

use serde_json::{Value, json};

use super::{
    Answer, State, answer,
    http::Request,
    identity::{User, rfc3339, uuid},
    objects::{Resource, merge},
    tokens::token_request,
};

/// The name of the user, if the request had a good one, and the answer.
pub(crate) fn answer(state: &mut State, request: &Request, certificate: &[u8]) -> (Option<String>, Answer) {
    let user = state.identities.who(request, certificate, &state.objects);
    let name = user.as_ref().map(|u| u.name.clone());
    let scripted = answer::next(&mut state.scripts, &request.method, &request.path);
    let answer = scripted.unwrap_or_else(|| match user {
        None => Answer::unauthorized(),
        Some(user) => authenticated(state, request, &user),
    });
    (name, answer)
}

fn authenticated(state: &mut State, request: &Request, user: &User) -> Answer {
    if ["/readyz", "/livez", "/healthz"].contains(&request.path.as_str()) {
        return Answer::text(200, "ok");
    }
    let Some(resource) = Resource::of(&request.path) else {
        return if user.name == "system:anonymous" {
            let message = format!(
                "forbidden: User \"system:anonymous\" cannot get path \"{}\"",
                request.path
            );
            Answer::status(403, &message, "Forbidden", "{}")
        } else {
            Answer::text(404, "404 page not found\n")
        };
    };
    let verb = verb(&request.method, &resource);
    if !allowed(state, user, verb, &resource.kind) {
        return forbidden(user, verb, &resource);
    }
    if let Some(answer) = state.routes.iter().find_map(|route| route(request)) {
        return answer;
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    match (request.method.as_str(), resource.kind.as_str()) {
        ("POST", "serviceaccounts/token") => token_request(state, &resource, &body),
        ("POST", "selfsubjectreviews") => self_review(user, &body),
        ("POST", "selfsubjectaccessreviews") => self_access_review(state, user, &body),
        ("POST", "pods/eviction") => {
            state.objects.remove(request.path.trim_end_matches("/eviction"));
            Answer::status(201, "", "", "")
        }
        ("GET", _) => get(state, request, &resource),
        ("POST", _) => create(state, request, body),
        ("PATCH" | "PUT", _) => change(state, request, &resource, body),
        ("DELETE", _) => delete(state, request, &resource, &body),
        _ => Answer::status(
            405,
            "the server does not allow this method on the requested resource",
            "MethodNotAllowed",
            "{}",
        ),
    }
}

fn verb(method: &str, resource: &Resource) -> &'static str {
    match (method, &resource.name) {
        ("GET", Some(_)) => "get",
        ("GET", None) => "list",
        ("POST", _) => "create",
        ("PATCH", _) => "patch",
        ("PUT", _) => "update",
        _ => "delete",
    }
}

fn allowed(state: &State, user: &User, verb: &str, resource: &str) -> bool {
    user.name != "system:anonymous" && !state.forbidden.iter().any(|(v, r)| v == verb && r == resource)
}

fn forbidden(user: &User, verb: &str, resource: &Resource) -> Answer {
    let name = resource.name.as_deref();
    let place = match &resource.namespace {
        Some(namespace) => format!("in the namespace \"{namespace}\""),
        None => "at the cluster scope".to_owned(),
    };
    let message = format!(
        "{}{} is forbidden: User \"{}\" cannot {verb} resource \"{}\" in API group \"{}\" {place}",
        resource.plain(),
        name.map(|n| format!(" \"{n}\"")).unwrap_or_default(),
        user.name,
        resource.kind,
        resource.group,
    );
    let details = match name {
        Some(name) => format!(r#"{{"name":"{name}","kind":"{}"}}"#, resource.plain()),
        None => format!(r#"{{"kind":"{}"}}"#, resource.plain()),
    };
    Answer::status(403, &message, "Forbidden", &details).with_header("X-Content-Type-Options", "nosniff")
}

fn get(state: &State, request: &Request, resource: &Resource) -> Answer {
    if let Some(name) = &resource.name {
        let from_cache = request.query_value("resourceVersion") == Some("0");
        return match state.objects.find(&request.path, from_cache) {
            Some(object) => Answer::json(200, object),
            None => Answer::not_found(resource.plain(), name),
        };
    }
    let selector = request.query_value("fieldSelector").unwrap_or_default();
    let mut items = state.objects.list(resource);
    items.retain(|object| selected(object, selector));
    let version = if resource.group.is_empty() {
        "v1".to_owned()
    } else {
        format!("{}/v1", resource.group)
    };
    Answer::json(
        200,
        &json!({"kind": "List", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": items}),
    )
}

/// Whether an object is meant by a field selector: `spec.nodeName=a,status.phase!=Running`, escaped or not.
fn selected(object: &Value, selector: &str) -> bool {
    let selector = selector
        .replace("%3D", "=")
        .replace("%2C", ",")
        .replace("%21", "!");
    selector.split(',').filter(|term| !term.is_empty()).all(|term| {
        let (field, wanted) = term.split_once('=').unwrap_or((term, ""));
        let (field, equal) = match field.strip_suffix('!') {
            Some(field) => (field, false),
            None => (field, true),
        };
        let found = object.pointer(&format!("/{}", field.replace('.', "/")));
        (found.and_then(Value::as_str).unwrap_or_default() == wanted) == equal
    })
}

fn create(state: &mut State, request: &Request, mut object: Value) -> Answer {
    if object["metadata"]["name"].is_null() {
        let stem = object["metadata"]["generateName"]
            .as_str()
            .unwrap_or("unnamed-")
            .to_owned();
        object["metadata"]["name"] = (stem + &uuid(0)[..8]).into();
    }
    let path = format!(
        "{}/{}",
        request.path,
        object["metadata"]["name"].as_str().unwrap_or_default()
    );
    state.objects.put(&path, object);
    Answer::json(201, state.objects.find(&path, false).unwrap_or(&Value::Null))
}

fn change(state: &mut State, request: &Request, resource: &Resource, body: Value) -> Answer {
    // A subresource such as `status` is a view of the object itself.
    let path = match resource.kind.split_once('/') {
        Some((_, sub)) => request.path.trim_end_matches(&format!("/{sub}")),
        None => &request.path,
    };
    let Some(mut object) = state.objects.remove(path) else {
        return Answer::not_found(resource.plain(), resource.name.as_deref().unwrap_or_default());
    };
    match request.method.as_str() {
        "PUT" => object = body,
        _ => merge(&mut object, &body),
    }
    state.objects.put(path, object.clone());
    Answer::json(200, &object)
}

fn delete(state: &mut State, request: &Request, resource: &Resource, options: &Value) -> Answer {
    let name = resource.name.as_deref().unwrap_or_default();
    let Some(object) = state.objects.find(&request.path, false) else {
        return Answer::not_found(resource.plain(), name);
    };
    let (wanted, uid) = (&options["preconditions"]["uid"], &object["metadata"]["uid"]);
    if !wanted.is_null() && wanted != uid {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": the UID in the precondition ({}) does not match the UID \
             in record ({}). The object might have been deleted and then recreated",
            resource.plain(),
            wanted.as_str().unwrap_or_default(),
            uid.as_str().unwrap_or_default()
        );
        let details = json!({"name": name, "kind": resource.plain()}).to_string();
        return Answer::status(409, &message, "Conflict", &details);
    }
    let object = state.objects.remove(&request.path).unwrap_or_default();
    Answer::json(200, &object)
}

fn self_review(user: &User, body: &Value) -> Answer {
    let mut extra = serde_json::Map::new();
    for (key, value) in &user.extra {
        extra.insert(key.clone(), json!([value]));
    }
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !extra.is_empty() {
        info["extra"] = extra.into();
    }
    Answer::json(
        201,
        &json!({"kind": "SelfSubjectReview", "apiVersion": body["apiVersion"],
            "metadata": {"creationTimestamp": rfc3339(super::identity::now())}, "status": {"userInfo": info}}),
    )
}

fn self_access_review(state: &State, user: &User, body: &Value) -> Answer {
    let asked = &body["spec"]["resourceAttributes"];
    let text = |key: &str| asked[key].as_str().unwrap_or_default();
    let resource = match text("subresource") {
        "" => text("resource").to_owned(),
        sub => format!("{}/{sub}", text("resource")),
    };
    let status = match allowed(state, user, text("verb"), &resource) {
        true => json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"linkerd-cni\""}),
        false => json!({"allowed": false}),
    };
    Answer::json(
        201,
        &json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
            "metadata": {}, "spec": body["spec"], "status": status}),
    )
}
