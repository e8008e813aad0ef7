//! Unusual previous results: the plugin must return what it does not understand unchanged.

use std::fmt::Write;

use evergreen_cni::protocol::version::VERSIONS;
use evergreen_test_support::run::CniCall;

use super::{mutation::seed, say};
use crate::{node::PLUGIN, robustness::damaged_files::Numbers};

/// The number of documents, spread over all protocol versions.
const DOCUMENTS: usize = 200;

/// Writes JSON in spellings that a serialiser would not use.
struct Writer<'a> {
    numbers: &'a mut Numbers,
    text: String,
}

impl Writer<'_> {
    fn space(&mut self) {
        const SPACES: [&str; 6] = ["", "", "", " ", "\n", "\t \r\n"];
        self.text.push_str(SPACES[self.numbers.below(SPACES.len())]);
    }

    /// Writes a string with escaped and unescaped characters.
    fn string(&mut self) {
        const PIECES: [&str; 16] = [
            "a",
            "Z9",
            " ",
            "\\\"",
            "\\\\",
            "\\/",
            "/",
            "\\n",
            "\\u0000",
            "\\u003c",
            "<&>",
            "\\ud83d\\ude00",
            "\u{1f600}",
            "\\uD83D\\uDE00",
            "\u{e9}",
            "\u{2028}",
        ];
        self.text.push('"');
        for _ in 0..self.numbers.below(6) {
            self.text.push_str(PIECES[self.numbers.below(PIECES.len())]);
        }
        self.text.push('"');
    }

    fn value(&mut self, depth: usize) {
        const SCALARS: [&str; 14] = [
            "0",
            "-0",
            "18446744073709551615",
            "-9223372036854775808",
            "9007199254740993",
            "1.50",
            "1e400",
            "-1E-400",
            "123456789012345678901234567890",
            "0.1000000000000000055511151231257827",
            "true",
            "false",
            "null",
            "\"\"",
        ];
        match self.numbers.below(if depth > 5 { 4 } else { 6 }) {
            0 | 1 => self.text.push_str(SCALARS[self.numbers.below(SCALARS.len())]),
            2 | 3 => self.string(),
            4 => self.list(depth),
            _ => self.object(depth),
        }
    }

    fn list(&mut self, depth: usize) {
        self.text.push('[');
        for i in 0..self.numbers.below(5) {
            self.text.push_str(if i > 0 { "," } else { "" });
            self.space();
            self.value(depth + 1);
        }
        self.space();
        self.text.push(']');
    }

    /// Keys may come twice, and in no order.
    fn object(&mut self, depth: usize) {
        self.text.push('{');
        for i in 0..self.numbers.below(5) {
            self.text.push_str(if i > 0 { "," } else { "" });
            self.space();
            self.string();
            self.space();
            self.text.push(':');
            self.space();
            self.value(depth + 1);
        }
        self.text.push('}');
    }

    /// A field of the result itself: its key, a value of the right kind, unknown ones among it.
    fn field(&mut self, key: &str, value: &str) {
        let (first, last) = value.split_at(value.len() - 1);
        let empty = first.ends_with(['{', '[']);
        let _ = write!(self.text, "\"{key}\"");
        self.space();
        self.text.push(':');
        self.space();
        self.text.push_str(first);
        if last == "}" {
            self.text.push_str(if empty {
                "\"x-unknown\":"
            } else {
                ",\"x-unknown\":"
            });
            self.value(0);
        }
        self.text.push_str(last);
    }

    /// The fields that a version has, shuffled, some left out, with unknown ones between them.
    fn result(&mut self, version: &str, filler: usize) {
        let mut fields: Vec<(&str, String)> = match version {
            "0.1.0" | "0.2.0" => vec![
                (
                    "ip4",
                    r#"{"ip":"10.1.0.5/24","gateway":"10.1.0.1","routes":[{"dst":"0.0.0.0/0"}]}"#.into(),
                ),
                ("ip6", r#"{"ip":"fd00::5/64"}"#.into()),
            ],
            _ => {
                let family = if version < "1.0.0" {
                    r#""version":"4","#
                } else {
                    ""
                };
                vec![
                    (
                        "interfaces",
                        r#"[{"name":"eth0","mac":"0A:58:0a:01:00:05","sandbox":"/x","mtu":1500}]"#.into(),
                    ),
                    (
                        "ips",
                        format!(
                            r#"[{{{family}"address":"10.1.0.5/24","interface":0,"x":18446744073709551615}}]"#
                        ),
                    ),
                    ("routes", r#"[{"dst":"0.0.0.0/0","priority":4294967295}]"#.into()),
                ]
            }
        };
        fields.push(("dns", r#"{"nameservers":["10.0.0.1"],"options":null}"#.into()));
        fields.push(("cniVersion", format!("\"{version}\"")));
        fields.push(("x-filler", format!("\"{}\"", "f".repeat(filler))));
        self.text.push('{');
        let mut first = true;
        while !fields.is_empty() {
            let (key, value) = fields.swap_remove(self.numbers.below(fields.len()));
            // All may be missing but the version; without it one is added, which another test shows.
            if key != "cniVersion" && self.numbers.below(4) == 0 {
                continue;
            }
            self.text.push_str(if first { "" } else { "," });
            first = false;
            self.space();
            self.field(key, &value);
            let _ = write!(self.text, ",\"x-{key}\":");
            self.value(0);
            self.space();
        }
        self.text.push('}');
    }
}

#[test]
fn odd_previous_results_are_returned_byte_for_byte() {
    let mut numbers = Numbers(seed() + 5);
    let mut bytes = 0;
    for i in 0..DOCUMENTS {
        let version = VERSIONS[i % VERSIONS.len()];
        // Some as large as the largest objects of a cluster.
        let filler = if i % 20 == 19 { 1 << 20 } else { numbers.below(300) };
        let mut writer = Writer {
            numbers: &mut numbers,
            text: String::new(),
        };
        writer.result(version, filler);
        let document = writer.text;
        let stdin = format!(r#"{{"name":"net","cniVersion":"{version}","prevResult": {document} }}"#);
        let call = CniCall::new(PLUGIN, "ADD", "/nowhere/netns").stdin(stdin);
        let reply = call.run().unwrap();
        let shown: String = document.chars().take(3000).collect();
        assert_eq!(
            reply.exit_code,
            Some(0),
            "document {i}: {shown}\n{:.1000}",
            reply.stdout
        );
        assert!(
            reply.stdout.strip_suffix('\n') == Some(&document),
            "document {i}: {shown}\n{:.3000}",
            reply.stdout
        );
        bytes += document.len();
    }
    say(
        DOCUMENTS,
        &format!(
            "previous results of all versions, {} MB, each returned byte for byte",
            bytes >> 20
        ),
    );
}
