//! A network configuration as text: its name, its plugins and the bytes each of them occupies. Pure.
//!
//! Values are located, not decoded, so that an edit keeps every byte of a neighbour. A `&RawValue` borrows from the text it
//! was parsed from; its address gives its span. Of members with the same name the last one counts, as in the runtimes' own
//! decoder (Go's `encoding/json`).

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use serde_json::value::RawValue;

/// The block of every linkerd-cni's and of our configuration, whatever the `type` is called.
const LINKERD_BLOCK: &str = "linkerd";

/// From the first byte of a value to the one after its last.
pub type Span = Range<usize>;

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// The two forms of a network configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A list of plugins (`.conflist`).
    List,
    /// A single plugin, the older form (`.conf`, `.json`).
    Single,
}

/// A configuration that a runtime could load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The form it was read in.
    pub form: Form,
    /// Its `name`.
    pub name: String,
    /// Its plugins in order, at least one.
    pub plugins: Vec<Plugin>,
}

/// A plugin's object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Its `type`.
    pub type_name: String,
    /// The bytes it occupies in the text.
    pub span: Span,
    has_linkerd_block: bool,
}

impl Network {
    /// Parses a text as the runtime would. The error says what the runtime would object to.
    pub fn parse(text: &[u8], form: Form) -> Result<Self, String> {
        let text = same_length_utf8(text);
        let document: &RawValue = serde_json::from_str(&text).map_err(|e| format!("not JSON: {e}"))?;
        let members = members(document).ok_or("not a JSON object")?;
        let name = string(members.get("name")).filter(|name| !name.is_empty());
        let name = name.ok_or("it has no `name`")?;
        let raw_plugins = match form {
            Form::Single => vec![document],
            Form::List => members
                .get("plugins")
                .and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok())
                .ok_or("it has no `plugins`")?,
        };
        if raw_plugins.is_empty() {
            return Err("its `plugins` are empty".to_owned());
        }
        let plugins = raw_plugins.into_iter().map(|raw| Plugin::parse(&text, raw));
        Ok(Self {
            form,
            name,
            plugins: plugins
                .collect::<Option<_>>()
                .ok_or("it has a plugin without `type`")?,
        })
    }

    /// True when it connects a pod to something: neither loopback alone nor our plugin alone.
    pub fn connects(&self, ours: &str) -> bool {
        self.plugins
            .iter()
            .any(|p| p.type_name != "loopback" && p.type_name != ours)
    }

    /// True when a plugin of this type is in it.
    pub fn has(&self, type_name: &str) -> bool {
        self.plugins.iter().any(|p| p.type_name == type_name)
    }
}

impl Plugin {
    fn parse(text: &str, raw: &RawValue) -> Option<Self> {
        let members = members(raw)?;
        Some(Self {
            type_name: string(members.get("type")).filter(|name| !name.is_empty())?,
            span: span(text, raw),
            has_linkerd_block: members.contains_key(LINKERD_BLOCK),
        })
    }
}

/// A list of plugins, as far as it says whether its pods get rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The network's name.
    pub name: String,
    /// It has a plugin that programs pods: ours, or an earlier linkerd-cni under another `type`.
    pub with_us: bool,
}

impl Chain {
    /// Reads the text of a list; `None` when it is anything else.
    pub fn read(text: &[u8], ours: &str) -> Option<Self> {
        let network = Network::parse(text, Form::List).ok()?;
        let programs = |plugin: &Plugin| plugin.type_name == ours || plugin.has_linkerd_block;
        Some(Self {
            with_us: network.plugins.iter().any(programs),
            name: network.name,
        })
    }
}

/// The span of a top-level member's value.
pub fn member(text: &[u8], name: &str) -> Option<Span> {
    let text = same_length_utf8(text);
    let document: &RawValue = serde_json::from_str(&text).ok()?;
    members(document)?.get(name).map(|raw| span(&text, raw))
}

/// The text with a `?` for each byte that is not UTF-8: runtimes accept such bytes in strings, `serde_json` does not, and
/// spans stay the same.
fn same_length_utf8(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(text) {
        return text.into();
    }
    let chunks = text.utf8_chunks();
    let replaced = chunks.flat_map(|c| [c.valid().to_owned(), "?".repeat(c.invalid().len())]);
    replaced.collect::<String>().into()
}

fn members(object: &RawValue) -> Option<Members<'_>> {
    serde_json::from_str(object.get()).ok()
}

fn string(value: Option<&&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

fn span(text: &str, raw: &RawValue) -> Span {
    let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + raw.get().len()
}

#[cfg(test)]
mod tests;
