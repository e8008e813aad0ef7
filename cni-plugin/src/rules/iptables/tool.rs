//! The node's iptables programs: found, and run with a deadline.

use std::{
    fmt, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

use evergreen_kube::process::{self, Killed};

use super::{Tools, directories, script::Found};
use crate::{net::cidr::Family, protocol::netconf::IptablesMode};

/// No pod has more rules than this, in bytes as `iptables-save` prints them.
const LARGEST_OUTPUT: u64 = 64 << 20;

/// One variant of iptables for one family.
#[derive(Debug)]
pub(super) struct Tool {
    /// The program that prints the rules.
    save: PathBuf,
    /// The program that changes them.
    pub(super) restore: PathBuf,
}

/// Why a program failed.
#[derive(Debug)]
pub(super) enum ToolError {
    /// None of these was found.
    Missing(Vec<String>),
    /// It could not be started, or its output not be read.
    Start(PathBuf, io::Error),
    /// It ended with an error.
    Refused(PathBuf, ExitStatus, String),
    /// It did not end in time and was killed.
    Late(PathBuf, Duration),
}

/// Finds the variants that are installed, the preferred one first.
pub(super) fn find(family: Family, tools: Tools<'_>) -> Result<Vec<Tool>, ToolError> {
    // After the preferred variant, the node's default comes before the remaining one.
    let variants = match tools.mode {
        IptablesMode::Legacy => ["-legacy", "", "-nft"],
        IptablesMode::Nft => ["-nft", "", "-legacy"],
        IptablesMode::Plain => ["", "-legacy", "-nft"],
    };
    let prefix = match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    };
    let mut found = Vec::new();
    for variant in variants {
        let save = look_up(&format!("{prefix}{variant}-save"), tools.path);
        let restore = look_up(&format!("{prefix}{variant}-restore"), tools.path);
        if let (Some(save), Some(restore)) = (save, restore) {
            found.push(Tool { save, restore });
        }
    }
    if found.is_empty() {
        let names = variants.map(|v| format!("{prefix}{v}-restore"));
        return Err(ToolError::Missing(names.to_vec()));
    }
    Ok(found)
}

fn look_up(name: &str, path: &str) -> Option<PathBuf> {
    directories(path).map(|folder| folder.join(name)).find(|file| {
        file.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

// === impl Tool ===

impl Tool {
    /// Reads the plugin's chains.
    pub(super) fn save(&self, tools: Tools<'_>) -> Result<Found, ToolError> {
        run(&self.save, &["-t", "nat"], "", tools).map(|saved| Found::read(&saved))
    }

    /// Applies a script, all or nothing.
    pub(super) fn restore(&self, script: &str, tools: Tools<'_>) -> Result<(), ToolError> {
        // Another program may hold the lock of all iptables programs; half of the time is left for the work itself.
        let wait = (tools.deadline.left() / 2).as_secs().max(1).to_string();
        run(&self.restore, &["--noflush", "--wait", &wait], script, tools).map(drop)
    }
}

/// Runs a program to its end and returns its output.
fn run(program: &Path, arguments: &[&str], input: &str, tools: Tools<'_>) -> Result<String, ToolError> {
    let started = Instant::now();
    let path: Vec<&str> = directories(tools.path).filter_map(Path::to_str).collect();
    let mut command = Command::new(program);
    command
        .args(arguments)
        // The program needs only PATH, to load kernel modules.
        .env_clear()
        .env("PATH", path.join(":"))
        .env("LC_ALL", "C");
    let failed = |e| ToolError::Start(program.to_owned(), e);
    let output =
        process::run(&mut command, input.as_bytes(), LARGEST_OUTPUT, tools.deadline).map_err(failed)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.exit {
        Ok(status) if status.success() => Ok(text(&output.stdout)),
        Ok(status) => Err(ToolError::Refused(
            program.to_owned(),
            status,
            text(&output.stderr),
        )),
        Err(Killed::Deadline) => Err(ToolError::Late(program.to_owned(), started.elapsed())),
        Err(Killed::Output) => Err(failed(io::ErrorKind::FileTooLarge.into())),
        Err(Killed::Io(e)) => Err(failed(e)),
    }
}

// === impl ToolError ===

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(names) => {
                write!(
                    f,
                    "none of {} was found on the node, neither in PATH nor in the usual directories",
                    names.join(", ")
                )
            }
            Self::Start(program, e) => write!(f, "cannot run {}: {e}", program.display()),
            Self::Refused(program, status, stderr) => {
                let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
                let words: String = stderr.chars().take(300).collect();
                write!(f, "{} failed ({status}): {words}", program.display())
            }
            Self::Late(program, after) => {
                write!(
                    f,
                    "{} did not end within {:.1} s and was stopped",
                    program.display(),
                    after.as_secs_f32()
                )
            }
        }
    }
}
