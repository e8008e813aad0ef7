//! What the installer asks, besides pods: who are we, may we do this, give us a token, is our DaemonSet still wanted.

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use ureq::http::Method;

use super::{
    ask::{Answer, LARGEST_LIST, LARGEST_OBJECT, Request},
    client::{Client, segment},
    clock, credentials,
    error::{Class, Error},
    object,
    pod::Strings,
    source::Secret,
};

/// `status.userInfo` of a SelfSubjectReview: who the API server takes us for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// `system:serviceaccount:<namespace>:<name>` for a service account.
    pub username: String,
    /// The ServiceAccount's uid.
    pub uid: String,
    /// Its groups.
    pub groups: Vec<String>,
    /// Such as `authentication.kubernetes.io/credential-id` (`JTI=<id of the token>`) and
    /// `authentication.kubernetes.io/node-name`.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// An action, for SelfSubjectAccessReview. Empty group: the core one; empty namespace: all; empty name: all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Action<'a> {
    /// `get`, `list`, `create`, ...
    pub verb: &'a str,
    /// API group.
    pub group: &'a str,
    /// `pods`, ...
    pub resource: &'a str,
    /// `token`, ...
    pub subresource: &'a str,
    /// In which namespace.
    pub namespace: &'a str,
    /// On which object.
    pub name: &'a str,
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

/// A token as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    /// The token.
    pub token: Secret,
    /// When it ends, in seconds since 1970: what was given, not what was asked.
    pub expires: i64,
    /// What the server warns of, such as a lifetime it cut.
    pub warnings: Vec<String>,
}

/// What the installer wants to know of its DaemonSet (or of any other object).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `metadata.uid`
    pub uid: String,
    /// True when somebody has deleted it and it is only waiting to be gone.
    pub deleting: bool,
    /// `metadata.labels`
    pub labels: Strings,
    /// `metadata.annotations`
    pub annotations: Strings,
}

impl Client {
    /// Who the API server takes us for. [`Class::NotFound`] before Kubernetes 1.28.
    pub fn self_subject_review(&mut self) -> Result<UserInfo, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            user_info: UserInfo,
        }
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let (status, _) = self.review::<Status>(path, &review, "ask who we are")?;
        Ok(status.user_info)
    }

    /// May we do this?
    pub fn can_i(&mut self, action: &Action<'_>) -> Result<bool, Error> {
        #[derive(Deserialize)]
        struct Status {
            #[serde(default)]
            allowed: bool,
        }
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": action.verb, "group": action.group, "resource": action.resource,
                "subresource": action.subresource, "namespace": action.namespace, "name": action.name}}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let purpose = format!("ask whether we may {} {}", action.verb, action.resource);
        let (status, _) = self.review::<Status>(path, &review, &purpose)?;
        Ok(status.allowed)
    }

    /// A new token of a ServiceAccount.
    ///
    /// What a server that cannot do it answers: [`Class::Forbidden`] without the right (`create` on
    /// `serviceaccounts/token`); [`Class::NotFound`] when there is no such account or bound object;
    /// [`Class::BadRequest`] when tokens cannot be bound to that kind (nodes: before 1.31); [`Class::Conflict`] when
    /// the bound object has another uid now.
    pub fn token_request(&mut self, wanted: &TokenRequest<'_>) -> Result<Minted, Error> {
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
        let (status, warnings) = self.review::<Status>(&path, &review, &purpose)?;
        let expires = clock::parse_rfc3339(&status.expiration_timestamp).ok_or_else(|| {
            let message = format!("{purpose}: the answer says no time at which the token ends");
            Error::new(Class::NotKubernetes, message)
        })?;
        Ok(Minted {
            token: credentials::clean(status.token.as_bytes(), "of the answer")?,
            expires,
            warnings,
        })
    }

    /// What is known of a DaemonSet; [`Class::NotFound`] when it is gone.
    pub fn daemonset(&mut self, namespace: &str, name: &str) -> Result<Metadata, Error> {
        let path = format!(
            "/apis/apps/v1/namespaces/{}/daemonsets/{}",
            segment(namespace),
            segment(name)
        );
        self.metadata(&path, &format!("get DaemonSet {namespace}/{name}"))
    }

    /// What is known of a namespace: whether it is being deleted.
    pub fn namespace_metadata(&mut self, name: &str) -> Result<Metadata, Error> {
        let path = format!("/api/v1/namespaces/{}", segment(name));
        self.metadata(&path, &format!("get Namespace {name}"))
    }

    /// What is known of a Node: its uid above all.
    pub fn node(&mut self, name: &str) -> Result<Metadata, Error> {
        self.metadata(
            &format!("/api/v1/nodes/{}", segment(name)),
            &format!("get Node {name}"),
        )
    }

    /// A list with its query, such as `/api/v1/pods?fieldSelector=...`, as far as `T` asks for it. 64 MiB at most: with
    /// `resourceVersion=0` no server cuts a list into pages (up to 1.36 at least: apiserver's `computeListLimit`).
    pub fn list<T: DeserializeOwned>(&mut self, path: &str, purpose: &str) -> Result<T, Error> {
        let request = Request {
            largest: LARGEST_LIST,
            ..request(Method::GET, path.to_owned(), None, purpose)
        };
        let answer = self.ask(&request)?;
        self.understand(&request, &answer, |body| object::parse(body, "Kubernetes list"))
    }

    /// The object under a path such as `/api/v1/nodes/node1`, as it is. `purpose` is said in an error, such as
    /// `get Node node1`.
    pub fn object(&mut self, path: &str, purpose: &str) -> Result<Value, Error> {
        let request = request(Method::GET, path.to_owned(), None, purpose);
        let answer = self.ask(&request)?;
        self.understand(&request, &answer, read_any)
    }

    /// Creates an object in a collection such as `/api/v1/namespaces/shop/events`.
    pub fn create(&mut self, path: &str, object: &Value, purpose: &str) -> Result<Value, Error> {
        self.post(path, object, purpose, read_any)
            .map(|(created, _)| created)
    }

    /// Deletes the object under a path, if it still has this uid ([`Class::Conflict`] otherwise).
    pub fn delete(&mut self, path: &str, uid: &str, purpose: &str) -> Result<(), Error> {
        let body =
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}).to_string();
        self.ask(&request(
            Method::DELETE,
            path.to_owned(),
            Some(body.as_bytes()),
            purpose,
        ))
        .map(|_: Answer| ())
    }

    fn metadata(&mut self, path: &str, purpose: &str) -> Result<Metadata, Error> {
        #[derive(Deserialize)]
        struct Raw {
            metadata: object::Metadata,
        }
        let request = request(Method::GET, path.to_owned(), None, purpose);
        let answer = self.ask(&request)?;
        let raw: Raw = self.understand(&request, &answer, |body| object::parse(body, "Kubernetes object"))?;
        Ok(Metadata {
            uid: raw.metadata.uid.unwrap_or_default(),
            deleting: raw.metadata.deletion_timestamp.is_some(),
            labels: raw.metadata.labels.unwrap_or_default(),
            annotations: raw.metadata.annotations.unwrap_or_default(),
        })
    }

    /// Creates an object whose status is an answer to it; that status, and what the server warns of.
    fn review<S: DeserializeOwned>(
        &mut self,
        path: &str,
        review: &Value,
        purpose: &str,
    ) -> Result<(S, Vec<String>), Error> {
        #[derive(Deserialize)]
        struct Reviewed<S> {
            status: S,
        }
        let said = |key: &str| review[key].as_str().unwrap_or_default();
        let (reviewed, warnings) = self.post(path, review, purpose, |body| {
            object::read_answer::<Reviewed<S>>(body, said("kind"), said("apiVersion"))
        })?;
        Ok((reviewed.status, warnings))
    }

    /// What an object that is sent comes to, and what the server warns of.
    fn post<T>(
        &mut self,
        path: &str,
        object: &Value,
        purpose: &str,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<(T, Vec<String>), Error> {
        let body = object.to_string();
        let request = request(Method::POST, path.to_owned(), Some(body.as_bytes()), purpose);
        let answer = self.ask(&request)?;
        let read = self.understand(&request, &answer, read)?;
        Ok((read, answer.warnings))
    }
}

fn request<'a>(method: Method, path: String, body: Option<&'a [u8]>, purpose: &str) -> Request<'a> {
    Request {
        method,
        path,
        body,
        purpose: purpose.to_owned(),
        largest: LARGEST_OBJECT,
    }
}

fn read_any(body: &[u8]) -> Result<Value, String> {
    object::parse(body, "Kubernetes object")
}
