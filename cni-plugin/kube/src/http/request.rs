//! A request to the API server and its response.

use std::time::Duration;

use ureq::http::Method;

/// Fits a pod of etcd's largest size (1.5 MiB) in JSON, in bytes.
const LARGEST_OBJECT: u64 = 8 << 20;
/// Fits the pods of a node: 250 of a quarter of a mebibyte each, in bytes.
const LARGEST_LIST: u64 = 64 << 20;

/// A request.
#[derive(Debug)]
pub struct Request<'a> {
    pub(crate) method: Method,
    /// Path and query, from `/api` on.
    pub(crate) path: String,
    pub(crate) body: Option<Vec<u8>>,
    /// Begins every message about the request, such as `get pod shop/web-0`.
    pub(crate) purpose: &'a str,
    /// The most bytes that the body of the response may have.
    pub(crate) limit: u64,
}

/// A response of any status.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

impl<'a> Request<'a> {
    /// Reads the object at a path such as `/api/v1/nodes/node1`. `purpose` begins every message about the request, such as
    /// `get Node node1`.
    pub fn get(path: impl Into<String>, purpose: &'a str) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: None,
            purpose,
            limit: LARGEST_OBJECT,
        }
    }

    /// Reads a list of at most 64 MiB.
    pub fn list(path: impl Into<String>, purpose: &'a str) -> Self {
        Self {
            limit: LARGEST_LIST,
            ..Self::get(path, purpose)
        }
    }

    /// Creates an object in a collection such as `/api/v1/namespaces/shop/events`.
    pub fn post(path: impl Into<String>, object: &serde_json::Value, purpose: &'a str) -> Self {
        Self {
            method: Method::POST,
            body: Some(object.to_string().into_bytes()),
            ..Self::get(path, purpose)
        }
    }

    /// Deletes the object at a path with these `DeleteOptions`.
    pub fn delete(path: impl Into<String>, options: &serde_json::Value, purpose: &'a str) -> Self {
        Self {
            method: Method::DELETE,
            ..Self::post(path, options, purpose)
        }
    }
}

/// Escapes a name as one segment of a path. Kubernetes names need no escape; other names must not become another path.
pub fn segment(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b':');
    let dots = name.bytes().all(|b| b == b'.');
    name.bytes()
        .map(|b| {
            if plain(b) && !dots {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}
