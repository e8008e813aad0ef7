//! What is sent to the API server and what comes back.

use std::time::Duration;

use ureq::http::Method;

/// A pod of etcd's largest size (1.5 MiB) in JSON, with room.
const LARGEST_OBJECT: u64 = 8 << 20;
/// The pods of a node (250 and more), each of a quarter of a mebibyte.
const LARGEST_LIST: u64 = 64 << 20;

/// A request.
#[derive(Debug)]
pub struct Request<'a> {
    pub(crate) method: Method,
    /// Path and query, from `/api` on.
    pub(crate) path: String,
    pub(crate) body: Option<Vec<u8>>,
    /// What it is for, such as `get pod shop/web-0`: begins every message about it.
    pub(crate) purpose: &'a str,
    /// How many bytes the body of the answer may have.
    pub(crate) limit: u64,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

impl<'a> Request<'a> {
    /// Reads an object under a path such as `/api/v1/nodes/node1`. `purpose` begins every message about the request,
    /// such as `get Node node1`.
    pub fn get(path: impl Into<String>, purpose: &'a str) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: None,
            purpose,
            limit: LARGEST_OBJECT,
        }
    }

    /// Reads a list, which may have 64 MiB.
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

    /// Deletes the object under a path with these `DeleteOptions`.
    pub fn delete(path: impl Into<String>, options: &serde_json::Value, purpose: &'a str) -> Self {
        Self {
            method: Method::DELETE,
            ..Self::post(path, options, purpose)
        }
    }
}
