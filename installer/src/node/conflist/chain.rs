//! A network as far as it tells whether pods get rules from it. Pure.

use super::{edit::Network, scan};

/// The network's block in the configuration of every linkerd-cni and of ours, whatever the `type` is called.
const BLOCK: &str = "linkerd";

/// A list of plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The network's name.
    pub name: String,
    /// A plugin that programs pods is in it: ours, or a linkerd-cni from before under another `type`.
    pub with_us: bool,
}

impl Chain {
    /// Reads the text of a list; none when it is something else.
    pub fn read(text: &[u8], ours: &str) -> Option<Self> {
        let network = Network::read(text, false).ok()?;
        let document = scan::document(text).ok()?;
        let name = scan::member(text, &document, "name")?;
        let programs = |plugin: &super::edit::Plugin| {
            plugin.type_name == ours || scan::member(text, &plugin.span, BLOCK).is_some()
        };
        Some(Self {
            name: scan::string(text, &name)?,
            with_us: network.plugins().iter().any(programs),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Chain> {
        Chain::read(text.as_bytes(), "evergreen-cni")
    }

    #[test]
    fn a_list_with_our_entry_or_a_linkerd_cnis_programs_pods_and_others_do_not() {
        for (plugins, with_us) in [
            (r#"{"type":"calico"}"#, false),
            (r#"{"type":"calico"},{"type":"evergreen-cni"}"#, true),
            (
                r#"{"type":"calico"},{"type":"mesh","linkerd":{"proxy-uid":2102}}"#,
                true,
            ),
        ] {
            let name = "net".to_owned();
            assert_eq!(
                read(&format!(r#"{{"name":"net","plugins":[{plugins}]}}"#)),
                Some(Chain { name, with_us }),
                "{plugins}"
            );
        }
        for text in [
            "",
            "{",
            r#"{"name":"net","type":"calico"}"#,
            r#"{"name":"net","plugins":[]}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
