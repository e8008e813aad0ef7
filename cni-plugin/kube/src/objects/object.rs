//! Any Kubernetes object in JSON: its kind is checked, and its metadata read.
//!
//! Null, absent and empty are the same. An error gives the position in the text and never quotes it: it may be a secret.

use std::collections::BTreeMap;

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

/// Labels or annotations.
pub type Strings = BTreeMap<String, String>;

/// An object with a spec of its kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object<S, T = IgnoredAny> {
    kind: Option<String>,
    api_version: Option<String>,
    /// `metadata`
    pub metadata: Option<Metadata>,
    /// `spec`
    pub spec: Option<S>,
    /// `status`
    pub status: Option<T>,
}

/// The part of `metadata` that is used.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// `namespace`
    pub namespace: Option<String>,
    /// `name`
    pub name: Option<String>,
    /// `uid`
    pub uid: Option<String>,
    /// `deletionTimestamp`: set once it is being deleted.
    pub deletion_timestamp: Option<String>,
    /// `labels`
    pub labels: Option<Strings>,
    /// `annotations`
    pub annotations: Option<Strings>,
    /// `ownerReferences`
    pub owner_references: Option<Vec<Owner>>,
}

/// An entry of `ownerReferences`.
#[derive(Deserialize)]
pub struct Owner {
    /// `kind`
    pub kind: Option<String>,
    /// `uid`
    pub uid: Option<String>,
    /// `controller`: true for the one owner that recreates the object.
    pub controller: Option<bool>,
}

/// Reads an object of this kind of the core group, or says what the bytes are instead.
pub fn read<S: DeserializeOwned>(body: &[u8], kind: &str) -> Result<Object<S>, String> {
    let object: Object<S> = parse(body, kind)?;
    // Without kind and version an object with a name is accepted, as in client-go.
    let name = object
        .metadata
        .as_ref()
        .and_then(|m| m.name.as_deref())
        .unwrap_or_default();
    if object.kind.is_none() && object.api_version.is_none() && !name.is_empty() {
        return Ok(object);
    }
    same_kind(object.kind.as_deref(), object.api_version.as_deref(), kind, "v1")?;
    Ok(object)
}

/// Reads an object of this kind and version, such as the answer to a review.
pub fn read_versioned<T: DeserializeOwned>(body: &[u8], kind: &str, version: &str) -> Result<T, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        kind: Option<String>,
        api_version: Option<String>,
    }
    let head: Head = parse(body, kind)?;
    same_kind(head.kind.as_deref(), head.api_version.as_deref(), kind, version)?;
    parse(body, kind)
}

/// Reads JSON; `kind` names the expected object in an error.
pub fn parse<T: DeserializeOwned>(body: &[u8], kind: &str) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|e| match e.classify() {
        serde_json::error::Category::Data => {
            format!(
                "a field has the wrong type for a {kind} (line {}, column {})",
                e.line(),
                e.column()
            )
        }
        serde_json::error::Category::Eof => "it is truncated".to_owned(),
        _ if body.trim_ascii_start().starts_with(b"<") => "it is an HTML page".to_owned(),
        _ => "it is not JSON".to_owned(),
    })
}

fn same_kind(kind: Option<&str>, version: Option<&str>, wanted: &str, of: &str) -> Result<(), String> {
    let short = |text: &str| text.chars().take(60).collect::<String>();
    match (kind, version) {
        (Some(kind), Some(version)) if kind == wanted && version == of => Ok(()),
        (Some(kind), version) => Err(format!(
            "kind {:?} of {:?}, not {wanted} of {of:?}",
            short(kind),
            short(version.unwrap_or_default())
        )),
        (None, _) => Err(format!("JSON without a kind, not {wanted}")),
    }
}
