//! The command line: which command, and which settings come with it.

use std::ffi::OsString;

use anyhow::{Context, Result, bail};

use crate::cli::settings::{self, RawSettings, Setting};

/// The program's name.
pub const PROGRAM: &str = "evergreen-install";

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Install, and end.
    Once,
    /// Install, and keep it right.
    Run,
    /// Take everything away.
    Uninstall,
    /// Say what is wrong.
    Check,
}

/// What the command line asks for.
pub enum Asked {
    /// Help, on one command or on all.
    Help(Option<Verb>),
    /// The version.
    Version,
    /// A command, or the usual one, with what flags have set.
    Do(Option<Verb>, RawSettings),
}

impl Verb {
    const ALL: [Self; 4] = [Self::Once, Self::Run, Self::Uninstall, Self::Check];

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Run => "run",
            Self::Uninstall => "uninstall",
            Self::Check => "check",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Once => "install, and end with exit code 0 when all is in place",
            Self::Run => {
                "install, keep it right while files, credentials and networks change, and clean up at the end"
            }
            Self::Uninstall => {
                "remove everything that was installed, and give changed files their own bytes back"
            }
            Self::Check => {
                "say what is wrong on this node and what to do; changes nothing, exit code 1 if something is"
            }
        }
    }
}

/// Reads the arguments.
pub fn ask(arguments: impl IntoIterator<Item = OsString>) -> Result<Asked> {
    use lexopt::Arg::{Long, Short, Value};
    let mut parser = lexopt::Parser::from_args(arguments);
    let (mut verb, mut given) = (None, RawSettings::default());
    let mut help = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => help = true,
            Short('V') | Long("version") => return Ok(Asked::Version),
            Long(flag) => match Setting::by_flag(flag) {
                Some(setting) => given.flag(setting, parser.value()?)?,
                None => bail!("unknown flag --{flag}; see {PROGRAM} --help"),
            },
            Value(word) if verb.is_none() => {
                let known = word.to_str().and_then(Verb::from_word);
                verb =
                    Some(known.with_context(|| format!("unknown command {word:?}; see {PROGRAM} --help"))?);
            }
            other => return Err(other.unexpected()).with_context(|| format!("see {PROGRAM} --help")),
        }
    }
    Ok(if help {
        Asked::Help(verb)
    } else {
        Asked::Do(verb, given)
    })
}

/// What is printed for `--help`.
pub fn help(verb: Option<Verb>) -> String {
    let usage = match verb {
        None => format!(
            "Usage: {PROGRAM} [COMMAND] [FLAGS]\n\nCommands:\n{}\nWithout a command: run, or once when SLEEP is false.\n",
            Verb::ALL
                .map(|v| format!("  {:<10} {}\n", v.word(), v.meaning()))
                .concat()
        ),
        Some(verb) => format!("Usage: {PROGRAM} {} [FLAGS]\n\n{}\n", verb.word(), verb.meaning()),
    };
    format!(
        "{usage}\nSettings, each a variable or a flag; the flag wins:\n{}",
        settings::table()
    )
}
