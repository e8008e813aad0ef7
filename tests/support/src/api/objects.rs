//! The objects, by path, and what a path means.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::identity::uuid;

/// What a request path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// API group; empty for the core one.
    pub group: String,
    /// Namespace, when it lies in one.
    pub namespace: Option<String>,
    /// `pods`, or with a subresource `serviceaccounts/token`.
    pub kind: String,
    /// The object's name; none for a collection.
    pub name: Option<String>,
}

/// Stored objects, and what the watch cache shows instead of some of them.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    stored: BTreeMap<String, Value>,
    cached: HashMap<String, Option<Value>>,
    version: u32,
}

impl Resource {
    /// Reads `/api/v1/...` and `/apis/<group>/<version>/...`.
    pub fn of(path: &str) -> Option<Self> {
        let words: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match words.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            _ => (None, rest),
        };
        let (kind, name) = match rest {
            [kind] => ((*kind).to_owned(), None),
            [kind, name] => ((*kind).to_owned(), Some((*name).to_owned())),
            [kind, name, sub] => (format!("{kind}/{sub}"), Some((*name).to_owned())),
            _ => return None,
        };
        Some(Self {
            group: group.to_owned(),
            namespace,
            kind,
            name,
        })
    }

    /// The resource without its subresource, as messages name it.
    pub fn plain(&self) -> &str {
        self.kind.split('/').next().unwrap_or_default()
    }
}

impl Objects {
    pub(crate) fn put(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = uuid(self.version).into();
        }
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.cached.remove(path);
        self.stored.insert(path.to_owned(), object);
    }

    pub(crate) fn set_cached(&mut self, path: &str, object: Option<Value>) {
        self.cached.insert(path.to_owned(), object);
    }

    pub(crate) fn find(&self, path: &str, from_cache: bool) -> Option<&Value> {
        match self.cached.get(path) {
            Some(cached) if from_cache => cached.as_ref(),
            _ => self.stored.get(path),
        }
    }

    pub(crate) fn remove(&mut self, path: &str) -> Option<Value> {
        self.cached.remove(path);
        self.stored.remove(path)
    }

    pub(crate) fn under(&self, prefix: &str) -> Vec<Value> {
        self.stored
            .iter()
            .filter(|(path, _)| path.starts_with(prefix))
            .map(|(_, o)| o.clone())
            .collect()
    }

    /// The objects of a collection, or of all namespaces when the path names none.
    pub(crate) fn list(&self, of: &Resource) -> Vec<Value> {
        let belongs = |path: &str| {
            Resource::of(path).is_some_and(|r| {
                r.group == of.group
                    && r.kind == of.kind
                    && r.name.is_some()
                    && (of.namespace.is_none() || r.namespace == of.namespace)
            })
        };
        self.stored
            .iter()
            .filter(|(path, _)| belongs(path))
            .map(|(_, o)| o.clone())
            .collect()
    }
}

/// `change` laid over `object` as a JSON merge patch (RFC 7396).
pub(crate) fn merge(object: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *object = change.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(serde_json::Map::new());
    }
    for (key, value) in change {
        match value {
            Value::Null => {
                object.as_object_mut().map(|o| o.remove(key));
            }
            _ => merge(&mut object[key.as_str()], value),
        }
    }
}
