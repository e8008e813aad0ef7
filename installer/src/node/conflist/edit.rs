//! Our entry put into the text of a network, and taken out of it. Pure: bytes in, bytes out. Whatever is not ours stays as
//! it was, and taking out what was put in gives the text from before.

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::scan::{self, Span};
use crate::node::entry::Entry;

/// A file that a runtime could load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// A list of plugins: where its array is, and each plugin in it.
    List { plugins: Vec<Plugin> },
    /// One plugin, the older form.
    Single { plugin: Plugin },
}

/// A plugin's object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Its `type`.
    pub type_name: String,
    /// Where it is.
    pub span: Span,
}

/// What is left of a text without our entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Without {
    /// There was none.
    Unchanged,
    /// This.
    Text(Vec<u8>),
    /// Nothing: the network was ours alone.
    Nothing,
}

impl Network {
    /// Reads a text as the runtime would; `single` says which of the two forms the file's extension promises.
    pub fn read(text: &[u8], single: bool) -> Result<Self, String> {
        let document = scan::document(text).map_err(|e| e.to_string())?;
        if !scan::is(text, &document, b'{') {
            return Err("not a JSON object".to_owned());
        }
        let name = scan::member(text, &document, "name").and_then(|n| scan::string(text, &n));
        if name.is_none_or(|n| n.is_empty()) {
            return Err("it has no `name`".to_owned());
        }
        if single {
            return Ok(Self::Single {
                plugin: plugin(text, document)?,
            });
        }
        let array = scan::member(text, &document, "plugins").filter(|p| scan::is(text, p, b'['));
        let array = array.ok_or("it has no `plugins`")?;
        let plugins = scan::elements(text, &array);
        if plugins.is_empty() {
            return Err("its `plugins` are empty".to_owned());
        }
        let plugins = plugins
            .into_iter()
            .map(|span| plugin(text, span))
            .collect::<Result<_, _>>()?;
        Ok(Self::List { plugins })
    }

    /// Every plugin in it, in order.
    pub fn plugins(&self) -> &[Plugin] {
        match self {
            Self::List { plugins } => plugins,
            Self::Single { plugin } => std::slice::from_ref(plugin),
        }
    }

    /// True when it connects a pod to something: not loopback alone, and not ours alone.
    pub fn connects(&self, ours: &str) -> bool {
        self.plugins()
            .iter()
            .any(|p| p.type_name != "loopback" && p.type_name != ours)
    }

    /// True when our entry is in it, in whatever state.
    pub fn has(&self, ours: &str) -> bool {
        self.plugins().iter().any(|p| p.type_name == ours)
    }
}

/// The list with exactly one entry of ours in it; None when that is so already. An entry that is there stays where it
/// stands: the order is the neighbours' business.
pub fn with_entry(text: &[u8], plugins: &[Plugin], entry: &Entry) -> Option<Vec<u8>> {
    let mut ours = plugins.iter().filter(|p| p.type_name == entry.type_name());
    let Some(first) = ours.next() else {
        return Some(appended(text, plugins, entry));
    };
    let right = text
        .get(first.span.clone())
        .and_then(|raw| serde_json::from_slice::<serde_json::Value>(raw).ok())
        .is_some_and(|found| found == *entry.object());
    let mut changed = text.to_vec();
    for extra in ours.rev() {
        changed.drain(spoken_for(plugins, extra, |_| true));
    }
    if !right {
        let style = Style::of(text, plugins);
        changed.splice(first.span.clone(), style.print(entry));
    }
    (changed != text).then_some(changed)
}

/// A list made of a single plugin, which stays in it byte for byte, and of our entry.
pub fn list_from_single(text: &[u8], plugin: &Plugin, entry: &Entry) -> Vec<u8> {
    let raw = |span: Span| text.get(span).unwrap_or_default();
    let mut list = b"{\n".to_vec();
    for name in ["cniVersion", "name"] {
        if let Some(value) = scan::member(text, &plugin.span, name) {
            list.extend_from_slice(format!("  \"{name}\": ").as_bytes());
            list.extend_from_slice(raw(value));
            list.extend_from_slice(b",\n");
        }
    }
    list.extend_from_slice(b"  \"plugins\": [\n    ");
    list.extend_from_slice(raw(plugin.span.clone()));
    list.extend_from_slice(b",\n    ");
    list.extend_from_slice(&Style { separator: b"\n    " }.print(entry));
    list.extend_from_slice(b"\n  ]\n}\n");
    list
}

/// The text without any entry of ours.
pub fn without_entry(text: &[u8], network: &Network, ours: &str) -> Without {
    let plugins = network.plugins();
    match plugins.iter().filter(|p| p.type_name == ours).count() {
        0 => Without::Unchanged,
        n if n == plugins.len() => Without::Nothing,
        _ => {
            let mut left = text.to_vec();
            for plugin in plugins.iter().rev().filter(|p| p.type_name == ours) {
                left.drain(spoken_for(plugins, plugin, |p| p.type_name != ours));
            }
            Without::Text(left)
        }
    }
}

fn plugin(text: &[u8], span: Span) -> Result<Plugin, String> {
    let type_name = scan::member(text, &span, "type").and_then(|t| scan::string(text, &t));
    match type_name {
        Some(type_name) if !type_name.is_empty() => Ok(Plugin { type_name, span }),
        _ => Err("it has a plugin without `type`".to_owned()),
    }
}

fn appended(text: &[u8], plugins: &[Plugin], entry: &Entry) -> Vec<u8> {
    let style = Style::of(text, plugins);
    let end = plugins.last().map_or(text.len(), |p| p.span.end);
    let (before, after) = text.split_at(end);
    [before, b",", style.separator, &style.print(entry), after].concat()
}

/// A plugin with the comma and the space that came with it: those before it, or those behind it when none of the plugins
/// before it stays.
fn spoken_for(plugins: &[Plugin], gone: &Plugin, stays: impl Fn(&Plugin) -> bool) -> Span {
    let before = plugins.iter().take_while(|p| p.span.start < gone.span.start);
    let behind = plugins.iter().find(|p| p.span.start > gone.span.start);
    match (before.clone().any(stays), before.last(), behind) {
        (true, Some(before), _) => before.span.end..gone.span.end,
        (_, _, Some(behind)) => gone.span.start..behind.span.start,
        _ => gone.span.clone(),
    }
}

/// How the neighbours write: what stands between the comma and a plugin.
struct Style<'a> {
    separator: &'a [u8],
}

impl<'a> Style<'a> {
    fn of(text: &'a [u8], plugins: &[Plugin]) -> Self {
        let start = plugins.last().map_or(0, |p| p.span.start);
        let before = text.get(..start).unwrap_or_default();
        let space = before
            .iter()
            .rev()
            .take_while(|b| b.is_ascii_whitespace())
            .count();
        Self {
            separator: before.get(start - space..).unwrap_or_default(),
        }
    }

    /// The entry, indented as its neighbours are, or on one line as they are.
    fn print(&self, entry: &Entry) -> Vec<u8> {
        let Some(line) = self.separator.iter().rposition(|b| *b == b'\n') else {
            return entry.object().to_string().into_bytes();
        };
        let indent = self.separator.get(line + 1..).unwrap_or_default();
        let step: &[u8] = if indent.contains(&b'\t') { b"\t" } else { b"  " };
        let mut printed = Vec::new();
        let mut serializer = Serializer::with_formatter(&mut printed, PrettyFormatter::with_indent(step));
        if entry.object().serialize(&mut serializer).is_err() {
            return entry.object().to_string().into_bytes();
        }
        // A string holds no bare newline in JSON, so every one here is the printer's.
        let lines: Vec<&[u8]> = printed.split(|b| *b == b'\n').collect();
        lines.join(&[b"\n", indent].concat()[..])
    }
}

#[cfg(test)]
mod tests;
