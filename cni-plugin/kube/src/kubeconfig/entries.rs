//! Looks up the named entries of a kubeconfig: its context, and the context's cluster and user.

use super::{
    problem::{invalid, missing},
    raw::{self, Named},
};
use crate::error::Error;

/// The context linkerd-cni's installer writes and its plugin asks for.
const PREFERRED_CONTEXT: &str = "linkerd-cni-context";

/// Returns the context to use and its name.
pub(super) fn choose<'a>(
    contexts: &'a [Named<raw::Context>],
    current: Option<&'a str>,
) -> Result<(&'a str, &'a raw::Context), Error> {
    let find = |name: &str| contexts.iter().find(|c| c.name.as_deref() == Some(name));
    let current = current.unwrap_or_default();
    let chosen = find(PREFERRED_CONTEXT).or_else(|| find(current).filter(|_| !current.is_empty()));
    match chosen {
        Some(Named {
            name: Some(name),
            value: Some(context),
        }) => Ok((name, context)),
        Some(entry) => {
            let name = entry.name.as_deref().unwrap_or_default();
            Err(missing(format!(
                "context {name:?} is empty; it must name a cluster and a user"
            )))
        }
        None if current.is_empty() => Err(missing(format!(
            "has no current-context and no context {PREFERRED_CONTEXT:?}; set current-context to one of: {}",
            names(contexts)
        ))),
        None => Err(missing(format!(
            "current-context {current:?} does not exist; the contexts are: {}",
            names(contexts)
        ))),
    }
}

/// Returns the entry that a context names.
pub(super) fn named<'a, T>(
    name: Option<&str>,
    entries: &'a [Named<T>],
    what: &str,
    context: &str,
) -> Result<&'a T, Error> {
    let name = name.unwrap_or_default();
    if name.is_empty() {
        return Err(missing(format!(
            "context {context:?} names no {what}; the {what}s are: {}",
            names(entries)
        )));
    }
    let entry = entries.iter().find(|e| e.name.as_deref() == Some(name));
    match entry.map(|e| &e.value) {
        Some(Some(value)) => Ok(value),
        Some(None) => Err(missing(format!("{what} {name:?} is empty"))),
        None => Err(missing(format!(
            "context {context:?} names {what} {name:?}, which does not exist; the {what}s are: {}",
            names(entries)
        ))),
    }
}

fn names<T>(entries: &[Named<T>]) -> String {
    let names: Vec<String> = entries
        .iter()
        .map(|e| format!("{:?}", e.name.as_deref().unwrap_or_default()))
        .collect();
    if names.is_empty() {
        "(none)".to_owned()
    } else {
        names.join(", ")
    }
}

pub(super) fn unique<T>(list: &str, entries: &[Named<T>]) -> Result<(), Error> {
    for (i, entry) in entries.iter().enumerate() {
        if entries[..i].iter().any(|e| e.name == entry.name) {
            let name = entry.name.as_deref().unwrap_or_default();
            return Err(invalid(format!(
                "{list} has two entries named {name:?}; remove or rename one"
            )));
        }
    }
    Ok(())
}
