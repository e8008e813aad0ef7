//! The API requests that only the installer makes: who it is and what it may do, tokens, its DaemonSet, other objects.

use evergreen_kube::{Class, Client, Error, Request, Secret, clock, object, segment, token};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// `status.userInfo` of a SelfSubjectReview: who the API server takes us for.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct UserInfo {
    /// `system:serviceaccount:<namespace>:<name>` for a service account.
    #[serde(default)]
    pub username: String,
}

/// What TokenRequest is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRequest<'a> {
    /// The ServiceAccount's namespace.
    pub namespace: &'a str,
    /// The ServiceAccount's name.
    pub account: &'a str,
    /// For whom the token is; empty for the API server itself.
    pub audiences: &'a [String],
    /// For how long, in seconds; at least 600. The server may give less.
    pub seconds: u64,
    /// The object the token is to die with.
    pub bound: Option<BoundTo<'a>>,
}

/// The object a token dies with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundTo<'a> {
    /// `Node`, `Pod` or `Secret`.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid; empty for whichever there is now.
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

/// The requests, on a client of the API server.
pub trait Requests {
    /// Returns who the API server takes us for. [`Class::NotFound`] before Kubernetes 1.28.
    fn self_subject_review(&mut self) -> Result<UserInfo, Error>;

    /// Returns true when RBAC allows us this in every namespace of the core API group.
    fn can_i(&mut self, verb: &str, resource: &str, subresource: &str) -> Result<bool, Error>;

    /// Requests a new token of a ServiceAccount.
    ///
    /// # Errors
    /// `Forbidden` without the right to `create` `serviceaccounts/token`; `NotFound` when the account or the bound object
    /// does not exist; `BadRequest` when tokens cannot be bound to that kind (nodes: before 1.31); `Conflict` when the
    /// bound object has another uid.
    fn token_request(&mut self, wanted: &TokenRequest<'_>) -> Result<IssuedToken, Error>;

    /// Reads the metadata of a DaemonSet; `NotFound` when it is gone.
    fn daemonset(&mut self, namespace: &str, name: &str) -> Result<Metadata, Error>;

    /// Reads the metadata of a namespace.
    fn namespace_metadata(&mut self, name: &str) -> Result<Metadata, Error>;

    /// Reads the metadata of a Node.
    fn node(&mut self, name: &str) -> Result<Metadata, Error>;

    /// Reads a list with its query, such as `/api/v1/pods?fieldSelector=...`, as far as `T` needs it. With
    /// `resourceVersion=0` no server cuts a list into pages (up to 1.36 at least: apiserver's `computeListLimit`).
    fn list<T: DeserializeOwned>(&mut self, path: &str, purpose: &str) -> Result<T, Error>;

    /// Reads the object under a path such as `/api/v1/nodes/node1`.
    fn object(&mut self, path: &str, purpose: &str) -> Result<Value, Error>;

    /// Creates an object in a collection such as `/api/v1/namespaces/shop/events`.
    fn create(&mut self, path: &str, object: &Value, purpose: &str) -> Result<Value, Error>;

    /// Deletes the object under a path if it still has this uid (`Conflict` otherwise).
    fn delete(&mut self, path: &str, uid: &str, purpose: &str) -> Result<(), Error>;
}

impl Requests for Client {
    fn self_subject_review(&mut self) -> Result<UserInfo, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            user_info: UserInfo,
        }
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let status = status_of::<Status>(self, path, &review, "ask who we are")?;
        Ok(status.user_info)
    }

    fn can_i(&mut self, verb: &str, resource: &str, subresource: &str) -> Result<bool, Error> {
        #[derive(Deserialize)]
        struct Status {
            #[serde(default)]
            allowed: bool,
        }
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "resource": resource, "subresource": subresource}}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let purpose = format!("ask whether we may {verb} {resource}");
        let status = status_of::<Status>(self, path, &review, &purpose)?;
        Ok(status.allowed)
    }

    fn token_request(&mut self, wanted: &TokenRequest<'_>) -> Result<IssuedToken, Error> {
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
        let status = status_of::<Status>(self, &path, &review, &purpose)?;
        let expires = clock::parse_rfc3339(&status.expiration_timestamp).ok_or_else(|| {
            let message = format!("{purpose}: the answer says no time at which the token ends");
            Error::new(Class::NotKubernetes, message)
        })?;
        let token = token::parse(status.token.as_bytes(), &purpose)?;
        Ok(IssuedToken { token, expires })
    }

    fn daemonset(&mut self, namespace: &str, name: &str) -> Result<Metadata, Error> {
        let path = format!(
            "/apis/apps/v1/namespaces/{}/daemonsets/{}",
            segment(namespace),
            segment(name)
        );
        metadata(self, &path, &format!("get DaemonSet {namespace}/{name}"))
    }

    fn namespace_metadata(&mut self, name: &str) -> Result<Metadata, Error> {
        let path = format!("/api/v1/namespaces/{}", segment(name));
        metadata(self, &path, &format!("get Namespace {name}"))
    }

    fn node(&mut self, name: &str) -> Result<Metadata, Error> {
        let path = format!("/api/v1/nodes/{}", segment(name));
        metadata(self, &path, &format!("get Node {name}"))
    }

    fn list<T: DeserializeOwned>(&mut self, path: &str, purpose: &str) -> Result<T, Error> {
        let read = |body: &[u8]| object::parse(body, "Kubernetes list");
        self.request(&Request::list(path, purpose), read)
    }

    fn object(&mut self, path: &str, purpose: &str) -> Result<Value, Error> {
        self.request(&Request::get(path, purpose), parse)
    }

    fn create(&mut self, path: &str, object: &Value, purpose: &str) -> Result<Value, Error> {
        self.request(&Request::post(path, object, purpose), parse)
    }

    fn delete(&mut self, path: &str, uid: &str, purpose: &str) -> Result<(), Error> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
        self.request(&Request::delete(path, &options, purpose), |_| Ok(()))
    }
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

/// Creates an object whose status is the answer to it, and returns that status.
fn status_of<S: DeserializeOwned>(
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
        object::read_answer::<Reviewed<S>>(body, field("kind"), field("apiVersion"))
    })?;
    Ok(reviewed.status)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    object::parse(body, "Kubernetes object")
}

#[cfg(test)]
mod tests;
