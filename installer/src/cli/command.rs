//! The command line: the command and the flags that come with it.

use std::ffi::OsString;

use anyhow::{Context, Result, bail};

use crate::cli::settings::{self, RawSettings, Setting};

/// The program's name.
pub const PROGRAM: &str = "evergreen-install";

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Install and exit.
    Once,
    /// Install and keep the node right.
    Run,
    /// Remove everything.
    Uninstall,
    /// Report what is wrong.
    Check,
}

/// What the command line asks for.
pub enum Request {
    /// Help on one command or on all.
    Help(Option<Command>),
    /// The version.
    Version,
    /// A command, or the default one, with the settings from flags.
    Run(Option<Command>, RawSettings),
}

impl Command {
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
            Self::Once => "install, and exit with code 0 when everything is in place",
            Self::Run => {
                "install, repair when files, credentials or networks change, and remove everything on uninstall"
            }
            Self::Uninstall => {
                "remove everything that was installed, and restore changed files byte for byte"
            }
            Self::Check => {
                "report what is wrong on this node and what to do about it; changes nothing, exit code 1 on a fault"
            }
        }
    }
}

/// Parses the arguments.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request> {
    use lexopt::Arg::{Long, Short, Value};
    let mut parser = lexopt::Parser::from_args(arguments);
    let (mut command, mut settings) = (None, RawSettings::default());
    let mut help = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => help = true,
            Short('V') | Long("version") => return Ok(Request::Version),
            Long(flag) => match Setting::by_flag(flag) {
                Some(setting) => settings.flag(setting, parser.value()?)?,
                None => bail!("unknown flag --{flag}; see {PROGRAM} --help"),
            },
            Value(word) if command.is_none() => {
                let known = word.to_str().and_then(Command::from_word);
                command =
                    Some(known.with_context(|| format!("unknown command {word:?}; see {PROGRAM} --help"))?);
            }
            other => return Err(other.unexpected()).with_context(|| format!("see {PROGRAM} --help")),
        }
    }
    Ok(if help {
        Request::Help(command)
    } else {
        Request::Run(command, settings)
    })
}

/// Returns the text of `--help`.
pub fn help(command: Option<Command>) -> String {
    let usage = match command {
        None => format!(
            "Usage: {PROGRAM} [COMMAND] [FLAGS]\n\nCommands:\n{}\nWithout a command: run, or once if SLEEP is false.\n",
            Command::ALL
                .map(|v| format!("  {:<10} {}\n", v.word(), v.meaning()))
                .concat()
        ),
        Some(command) => format!(
            "Usage: {PROGRAM} {} [FLAGS]\n\n{}\n",
            command.word(),
            command.meaning()
        ),
    };
    format!(
        "{usage}\nSettings, each an environment variable or a flag; a flag takes precedence:\n{}",
        settings::table()
    )
}
