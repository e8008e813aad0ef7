//! The log of both programs: one line per decision on stderr, as logfmt or JSON. Never a secret, never a whole pod.
//!
//! Stderr because stdout is the CNI reply. containerd copies stderr to its journal when a call succeeds and drops it when
//! one fails, so the reply must hold everything a user needs to know about a failure.

mod keys;

use std::{
    fmt::{Display, Write as _},
    io::{self, Write as _},
};

use self::keys::FIXED;
pub use self::keys::KEYS;
use crate::clock;

/// The least severe level that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Single steps.
    Debug,
    /// Decisions.
    Info,
    /// Conditions that a person should look into.
    Warn,
    /// Failures.
    Error,
    /// Nothing is logged, for a caller that reports the outcome itself.
    Off,
}

/// The program, or the part of one, that writes a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// `evergreen-cni`
    Plugin,
    /// `evergreen-install`
    Installer,
    /// The repair controller.
    Repair,
}

/// How a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `key=value`, values quoted where necessary.
    #[default]
    Logfmt,
    /// One JSON object of strings per line.
    Json,
}

/// A log for one component.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    component: Component,
    level: Level,
    format: Format,
}

/// A line to be written, with its keys.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    log: Log,
    keys: &'a [(&'a str, &'a dyn Display)],
}

impl Format {
    /// Reads `logfmt` or `json`; Linkerd's `plain` means `logfmt`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "logfmt" | "plain" => Some(Self::Logfmt),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

impl Log {
    /// A logfmt log of lines at this level and above.
    pub fn new(component: Component, level: Level) -> Self {
        Self {
            component,
            level,
            format: Format::Logfmt,
        }
    }

    /// The same log in another format.
    #[must_use]
    pub fn format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// A line with these keys, each from [`KEYS`].
    pub fn with<'a>(self, keys: &'a [(&'a str, &'a dyn Display)]) -> Entry<'a> {
        for (key, _) in keys {
            debug_assert!(
                KEYS[FIXED..].iter().any(|(known, _)| known == key),
                "log key {key}"
            );
        }
        Entry { log: self, keys }
    }

    /// Logs a single step.
    pub fn debug(self, msg: impl Display) {
        self.with(&[]).debug(msg);
    }

    /// Logs a decision.
    pub fn info(self, msg: impl Display) {
        self.with(&[]).info(msg);
    }

    /// Logs a condition that a person should look into.
    pub fn warn(self, msg: impl Display) {
        self.with(&[]).warn(msg);
    }

    /// Logs a failure.
    pub fn error(self, msg: impl Display) {
        self.with(&[]).error(msg);
    }
}

impl Entry<'_> {
    /// Logs a single step.
    pub fn debug(self, msg: impl Display) {
        self.write(Level::Debug, &msg);
    }

    /// Logs a decision.
    pub fn info(self, msg: impl Display) {
        self.write(Level::Info, &msg);
    }

    /// Logs a condition that a person should look into.
    pub fn warn(self, msg: impl Display) {
        self.write(Level::Warn, &msg);
    }

    /// Logs a failure.
    pub fn error(self, msg: impl Display) {
        self.write(Level::Error, &msg);
    }

    fn write(self, level: Level, msg: &dyn Display) {
        if level >= self.log.level {
            // One write, so that lines of two processes do not mix. A runtime that has closed stderr must not fail the
            // call (`eprintln!` would panic).
            let line = self.line(&clock::timestamp(), level, msg);
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    fn line(self, time: &str, level: Level, msg: &dyn Display) -> String {
        let level = match level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error | Level::Off => "error",
        };
        let component = match self.log.component {
            Component::Plugin => "plugin",
            Component::Installer => "installer",
            Component::Repair => "repair",
        };
        let fixed: [(&str, &dyn Display); FIXED] = [
            ("time", &time),
            ("level", &level),
            ("component", &component),
            ("msg", msg),
        ];
        let mut line = String::with_capacity(256);
        for (key, value) in fixed.iter().chain(self.keys) {
            let value = value.to_string();
            match self.log.format {
                Format::Logfmt => {
                    line.push_str(if line.is_empty() { "" } else { " " });
                    line.push_str(key);
                    line.push('=');
                    if value.is_empty() || value.contains(needs_quotes) {
                        push_quoted(&mut line, &value);
                    } else {
                        line.push_str(&value);
                    }
                }
                Format::Json => {
                    line.push(if line.is_empty() { '{' } else { ',' });
                    push_quoted(&mut line, key);
                    line.push(':');
                    push_quoted(&mut line, &value);
                }
            }
        }
        line.push_str(match self.log.format {
            Format::Logfmt => "\n",
            Format::Json => "}\n",
        });
        line
    }
}

fn needs_quotes(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '=' | '"' | '\\')
}

/// Appends a JSON string, which logfmt parsers read, too. A value may be quoted from a response or a file name: it must
/// not begin a line or a key, or reach a terminal as a control sequence.
fn push_quoted(line: &mut String, text: &str) {
    line.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => line.extend(['\\', c]),
            '\n' => line.push_str("\\n"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                let _ = write!(line, "\\u{:04x}", u32::from(c));
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2026-12-01T04:30:00.123Z";

    fn line(format: Format, file: &str) -> String {
        let log = Log::new(Component::Plugin, Level::Info).format(format);
        log.with(&[("pod", &"shop/web-0"), ("file", &file)])
            .line(TIME, Level::Info, &"add redirected")
    }

    #[test]
    fn values_are_quoted_where_necessary() {
        for (file, written) in [
            ("a", "a"),
            ("/ü", "/ü"),
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("a=b", r#""a=b""#),
        ] {
            assert_eq!(
                line(Format::Logfmt, file),
                format!(
                    "time={TIME} level=info component=plugin msg=\"add redirected\" pod=shop/web-0 file={written}\n"
                )
            );
        }
    }

    #[test]
    fn value_cannot_begin_a_line_or_a_key() {
        let hostile = "a\" level=error\nlevel=info\r\u{1b}[2J\u{9b}\u{7f}\u{2028}\\";
        let quoted = r#""a\" level=error\nlevel=info\u000d\u001b[2J\u009b\u007f\u2028\\""#;
        let logfmt = line(Format::Logfmt, hostile);
        assert!(logfmt.ends_with(&format!("file={quoted}\n")), "{logfmt}");

        let json = line(Format::Json, hostile);
        assert_eq!(json.lines().count(), 1, "{json}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["file"], hostile);
        assert_eq!(json["time"], TIME);
        assert_eq!(json["msg"], "add redirected");
    }
}
