//! Inserts our entry into the text of a network and removes it. Pure: bytes in, bytes out. Every byte that is not ours stays,
//! and removing what was inserted restores the earlier text.

use serde::Serialize;
use serde_json::{
    Value,
    ser::{PrettyFormatter, Serializer},
};

use super::network::{self, Network, Plugin, Span};
use crate::cli::entry::Entry;

/// What remains of a text without our entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Without {
    /// Our entry is not in it.
    Unchanged,
    /// This text.
    Text(Vec<u8>),
    /// Nothing: every plugin was ours.
    Nothing,
}

/// Returns the list with exactly one up-to-date entry of ours; `None` when the text is that already. An existing entry keeps
/// its place: the order belongs to the neighbours.
pub fn with_entry(text: &[u8], plugins: &[Plugin], entry: &Entry) -> Option<Vec<u8>> {
    let mut ours = plugins.iter().filter(|p| p.type_name == entry.type_name());
    let Some(first) = ours.next() else {
        return Some(appended(text, plugins, entry));
    };
    let current = text.get(first.span.clone()).unwrap_or_default();
    let is_current = serde_json::from_slice::<Value>(current).is_ok_and(|found| found == *entry.object());
    let mut changed = text.to_vec();
    for extra in ours.rev() {
        changed.drain(span_with_comma(plugins, extra, |_| true));
    }
    if !is_current {
        changed.splice(first.span.clone(), Style::of(text, plugins).print(entry));
    }
    (changed != text).then_some(changed)
}

/// Returns a list of a single plugin, kept byte for byte, and our entry.
pub fn list_from_single(text: &[u8], plugin: &Plugin, entry: &Entry) -> Vec<u8> {
    let raw = |span: Span| text.get(span).unwrap_or_default();
    let mut list = b"{\n".to_vec();
    for name in ["cniVersion", "name"] {
        if let Some(value) = network::member(text, name) {
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

/// Returns the text without any entry of ours.
pub fn without_entry(text: &[u8], network: &Network, ours: &str) -> Without {
    let plugins = &network.plugins;
    match plugins.iter().filter(|p| p.type_name == ours).count() {
        0 => Without::Unchanged,
        n if n == plugins.len() => Without::Nothing,
        _ => {
            let mut left = text.to_vec();
            for plugin in plugins.iter().rev().filter(|p| p.type_name == ours) {
                left.drain(span_with_comma(plugins, plugin, |p| p.type_name != ours));
            }
            Without::Text(left)
        }
    }
}

fn appended(text: &[u8], plugins: &[Plugin], entry: &Entry) -> Vec<u8> {
    let style = Style::of(text, plugins);
    let end = plugins.last().map_or(text.len(), |p| p.span.end);
    let (before, after) = text.split_at(end);
    [before, b",", style.separator, &style.print(entry), after].concat()
}

/// The span of a plugin with its comma and white space: those before it, or those after it when no plugin before it stays.
fn span_with_comma(plugins: &[Plugin], removed: &Plugin, stays: impl Fn(&Plugin) -> bool) -> Span {
    let before = plugins.iter().take_while(|p| p.span.start < removed.span.start);
    let after = plugins.iter().find(|p| p.span.start > removed.span.start);
    match (before.clone().any(stays), before.last(), after) {
        (true, Some(before), _) => before.span.end..removed.span.end,
        (_, _, Some(after)) => removed.span.start..after.span.start,
        _ => removed.span.clone(),
    }
}

/// The neighbours' layout: the white space between a comma and the next plugin.
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

    /// The entry, indented like its neighbours, or on one line like them.
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
        // A JSON string holds no bare newline, so every newline here is the printer's.
        let lines: Vec<&[u8]> = printed.split(|b| *b == b'\n').collect();
        lines.join(&[b"\n", indent].concat()[..])
    }
}

#[cfg(test)]
mod tests;
