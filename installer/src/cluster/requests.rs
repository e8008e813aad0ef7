//! The API requests that only the installer makes: reviews of its identity and rights, tokens, metadata, any object.

use evergreen_kube::{Class, Client, Error, Request, Secret, clock, object, segment, token};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// The content of a TokenRequest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRequest<'a> {
    /// The ServiceAccount's namespace.
    pub namespace: &'a str,
    /// The ServiceAccount's name.
    pub account: &'a str,
    /// The audiences; empty for the API server itself.
    pub audiences: &'a [String],
    /// The requested lifetime in seconds, at least 600. The server may shorten it.
    pub seconds: u64,
    /// The object the token is bound to.
    pub bound: Option<BoundTo<'a>>,
}

/// The object a token is bound to: the token is revoked when the object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundTo<'a> {
    /// `Node`, `Pod` or `Secret`.
    pub kind: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object's UID; empty for the current one.
    pub uid: &'a str,
}

/// A token that the API server issued.
#[derive(Debug, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token.
    pub token: Secret,
    /// When it expires, in seconds since 1970; the server may have shortened the lifetime.
    pub expires: i64,
}

/// The metadata of any object.
#[derive(Debug, PartialEq, Eq)]
pub struct Metadata {
    /// `metadata.uid`
    pub uid: String,
    /// True when it has a `metadata.deletionTimestamp`.
    pub deleting: bool,
}

/// Returns the user name the API server knows us by, such as `system:serviceaccount:<namespace>:<name>`.
/// [`Class::NotFound`] before Kubernetes 1.28.
pub fn whoami(client: &mut Client) -> Result<String, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        user_info: UserInfo,
    }
    #[derive(Deserialize)]
    struct UserInfo {
        #[serde(default)]
        username: String,
    }
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let status: Status = review_status(client, path, &review, "review our identity")?;
    Ok(status.user_info.username)
}

/// Returns true when RBAC allows us this on the core API group in every namespace.
pub fn can_i(client: &mut Client, verb: &str, resource: &str, subresource: &str) -> Result<bool, Error> {
    #[derive(Deserialize)]
    struct Status {
        #[serde(default)]
        allowed: bool,
    }
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": verb, "resource": resource, "subresource": subresource}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let purpose = format!("review our right to {verb} {resource}");
    let status: Status = review_status(client, path, &review, &purpose)?;
    Ok(status.allowed)
}

/// Requests a new token of a ServiceAccount.
///
/// # Errors
/// [`Class::Forbidden`] without the right to `create` `serviceaccounts/token`; [`Class::NotFound`] when the account or the
/// bound object does not exist; [`Class::BadRequest`] when tokens cannot be bound to that kind (nodes: before 1.31);
/// [`Class::Conflict`] when the bound object has another UID.
pub fn token_request(client: &mut Client, wanted: &TokenRequest<'_>) -> Result<IssuedToken, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        token: String,
        expiration_timestamp: String,
    }
    let mut spec = json!({"audiences": wanted.audiences, "expirationSeconds": wanted.seconds});
    if let Some(bound) = wanted.bound {
        spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": bound.kind, "name": bound.name});
        if !bound.uid.is_empty() {
            spec["boundObjectRef"]["uid"] = bound.uid.into();
        }
    }
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let (namespace, account) = (segment(wanted.namespace), segment(wanted.account));
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let purpose = format!(
        "request a token of ServiceAccount {}/{}",
        wanted.namespace, wanted.account
    );
    let status: Status = review_status(client, &path, &review, &purpose)?;
    let expires = clock::parse_rfc3339(&status.expiration_timestamp).ok_or_else(|| {
        let message = format!("{purpose}: the response has no valid expirationTimestamp");
        Error::new(Class::NotKubernetes, message)
    })?;
    let token = token::parse(status.token.as_bytes(), &purpose)?;
    Ok(IssuedToken { token, expires })
}

/// Reads the metadata of a DaemonSet; [`Class::NotFound`] when it is gone.
pub fn daemonset(client: &mut Client, namespace: &str, name: &str) -> Result<Metadata, Error> {
    let path = format!(
        "/apis/apps/v1/namespaces/{}/daemonsets/{}",
        segment(namespace),
        segment(name)
    );
    metadata(client, &path, &format!("get DaemonSet {namespace}/{name}"))
}

/// Reads the metadata of a namespace.
pub fn namespace(client: &mut Client, name: &str) -> Result<Metadata, Error> {
    let path = format!("/api/v1/namespaces/{}", segment(name));
    metadata(client, &path, &format!("get Namespace {name}"))
}

/// Reads the metadata of a Node.
pub fn node(client: &mut Client, name: &str) -> Result<Metadata, Error> {
    let path = format!("/api/v1/nodes/{}", segment(name));
    metadata(client, &path, &format!("get Node {name}"))
}

/// Reads a list with its query, such as `/api/v1/pods?fieldSelector=...`, as far as `T` needs it. With `resourceVersion=0`
/// no server cuts a list into pages (up to 1.36 at least: apiserver's `computeListLimit`).
pub fn list<T: DeserializeOwned>(client: &mut Client, path: &str, purpose: &str) -> Result<T, Error> {
    let read = |body: &[u8]| object::parse(body, "Kubernetes list");
    client.request(&Request::list(path, purpose), read)
}

/// Reads the object at a path such as `/api/v1/nodes/node1`.
pub fn get(client: &mut Client, path: &str, purpose: &str) -> Result<Value, Error> {
    client.request(&Request::get(path, purpose), parse)
}

/// Creates an object in a collection such as `/api/v1/namespaces/shop/events`.
pub fn create(client: &mut Client, path: &str, object: &Value, purpose: &str) -> Result<Value, Error> {
    client.request(&Request::post(path, object, purpose), parse)
}

/// Deletes the object at a path if it still has this UID ([`Class::Conflict`] otherwise).
pub fn delete(client: &mut Client, path: &str, uid: &str, purpose: &str) -> Result<(), Error> {
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
    client.request(&Request::delete(path, &options, purpose), |_| Ok(()))
}

fn metadata(client: &mut Client, path: &str, purpose: &str) -> Result<Metadata, Error> {
    #[derive(Deserialize)]
    struct Raw {
        metadata: object::Metadata,
    }
    let raw: Raw = client.request(&Request::get(path, purpose), parse)?;
    Ok(Metadata {
        uid: raw.metadata.uid.unwrap_or_default(),
        deleting: raw.metadata.deletion_timestamp.is_some(),
    })
}

/// Creates an object that the server answers by its status, and returns that status.
fn review_status<S: DeserializeOwned>(
    client: &mut Client,
    path: &str,
    review: &Value,
    purpose: &str,
) -> Result<S, Error> {
    #[derive(Deserialize)]
    struct Reviewed<S> {
        status: S,
    }
    let field = |key: &str| review[key].as_str().unwrap_or_default();
    let reviewed = client.request(&Request::post(path, review, purpose), |body| {
        object::read_versioned::<Reviewed<S>>(body, field("kind"), field("apiVersion"))
    })?;
    Ok(reviewed.status)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    object::parse(body, "Kubernetes object")
}

#[cfg(test)]
mod tests;
