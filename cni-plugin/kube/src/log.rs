//! One line per decision on stderr, `key=value`, lower case. Never a secret, never a whole pod.
//!
//! Stderr because stdout is the CNI reply: containerd copies it to its journal when a call succeeds and drops it
//! when one fails, so whatever a user must know of a failure is in the reply.

use std::{
    fmt,
    io::{self, Write},
};

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Also the steps on the way.
    Debug,
    /// Also one line for every decision.
    Info,
    /// What a person should look at.
    Warn,
    /// Nothing: for a caller that says itself what came of it.
    Off,
}

/// Where the lines go, from which level on.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    program: &'static str,
    level: Level,
}

impl Log {
    /// A log that says lines of this level and above.
    pub fn new(level: Level) -> Self {
        Self::of("evergreen-cni", level)
    }

    /// The same for another program; its name begins each line.
    pub fn of(program: &'static str, level: Level) -> Self {
        Self { program, level }
    }

    /// A step on the way.
    pub fn debug(self, line: fmt::Arguments<'_>) {
        self.say(Level::Debug, line);
    }

    /// A decision.
    pub fn info(self, line: fmt::Arguments<'_>) {
        self.say(Level::Info, line);
    }

    /// Something a person should look at.
    pub fn warn(self, line: fmt::Arguments<'_>) {
        self.say(Level::Warn, line);
    }

    fn say(self, level: Level, line: fmt::Arguments<'_>) {
        if level >= self.level {
            let word = match level {
                Level::Debug => "debug",
                Level::Info => "info",
                Level::Warn | Level::Off => "warn",
            };
            // One write, so that lines of two processes do not mix. A runtime that has closed our stderr must not fail
            // the call (`eprintln!` would panic).
            let line = format!(
                "{} level={word} {}\n",
                self.program,
                on_one_line(&line.to_string())
            );
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }
}

/// A line may quote others (an answer, a name of a file or pod), who must not be able to begin a line of ours.
fn on_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_cannot_begin_a_line_or_talk_to_a_terminal() {
        assert_eq!(
            on_one_line("file=a\nevergreen-cni level=info add\r\u{1b}[2J"),
            "file=a evergreen-cni level=info add  [2J"
        );
        assert_eq!(on_one_line("pod=shop/web-0 ü"), "pod=shop/web-0 ü");
    }
}
