//! The node's iptables programs: found, started, fed, bounded in time. Their stdout is never ours.

use std::{
    fmt,
    io::{self, Read, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::{Tools, directories, script::Found};
use crate::{policy::cidr::Family, protocol::netconf::IptablesMode};

/// One variant of iptables for one family.
#[derive(Debug)]
pub(super) struct Tool {
    /// Prints the rules.
    save: PathBuf,
    /// Changes them.
    pub(super) restore: PathBuf,
}

/// What became of a program we needed.
#[derive(Debug)]
pub(super) enum Failure {
    /// None of these is anywhere.
    Missing(Vec<String>),
    /// It could not be started or talked to.
    Start(PathBuf, io::Error),
    /// It said no.
    Refused(PathBuf, ExitStatus, String),
    /// It was not over in time, and was killed.
    Late(PathBuf, Duration),
}

/// The variants that exist, the preferred one first. An error when there is none.
pub(super) fn find(family: Family, tools: Tools<'_>) -> Result<Vec<Tool>, Failure> {
    // After what was asked for: whatever the node calls its own, then what is left.
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
        return Err(Failure::Missing(names.to_vec()));
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
    /// Our chains as they are now.
    pub(super) fn save(&self, tools: Tools<'_>) -> Result<Found, Failure> {
        run(&self.save, &["-t", "nat"], "", tools).map(|saved| Found::read(&saved))
    }

    /// Has a script take effect, all or nothing.
    pub(super) fn restore(&self, script: &str, tools: Tools<'_>) -> Result<(), Failure> {
        // Another program may hold the lock of all iptables programs; some of our time is for what comes after it.
        let wait = (tools.deadline.left() / 2).as_secs().max(1).to_string();
        run(&self.restore, &["--noflush", "--wait", &wait], script, tools).map(drop)
    }
}

/// Runs a program to its end; what it printed.
fn run(program: &Path, arguments: &[&str], input: &str, tools: Tools<'_>) -> Result<String, Failure> {
    let started = Instant::now();
    let path: Vec<&str> = directories(tools.path).filter_map(Path::to_str).collect();
    let child = Command::new(program)
        .args(arguments)
        // Of the runtime's environment it needs nothing but a PATH, to load modules.
        .env_clear()
        .env("PATH", path.join(":"))
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Of its own, so that what it starts (`modprobe`) can be stopped with it.
        .process_group(0)
        .spawn();
    let mut child = child.map_err(|e| Failure::Start(program.to_owned(), e))?;
    match talk(&mut child, input, tools) {
        Ok(Some((status, stdout, _))) if status.success() => Ok(stdout),
        Ok(Some((status, _, stderr))) => Err(Failure::Refused(program.to_owned(), status, stderr)),
        Ok(None) => {
            stop(&mut child);
            Err(Failure::Late(program.to_owned(), started.elapsed()))
        }
        Err(e) => {
            stop(&mut child);
            Err(Failure::Start(program.to_owned(), e))
        }
    }
}

fn stop(child: &mut Child) {
    // Not waited for yet, so its number is still its own.
    evergreen_kube::sys::kill_group(child.id());
    let _ = child.wait();
}

/// Feeds and drains the child; how it ended, its stdout and its stderr. None when the deadline came first.
///
/// Each pipe has a thread, since a full one would stop the child and so us. One that still reads after the deadline is
/// left behind; its pipe closes when the child is stopped.
fn talk(
    child: &mut Child,
    input: &str,
    tools: Tools<'_>,
) -> io::Result<Option<(ExitStatus, String, String)>> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let input = input.as_bytes().to_owned();
    // A child that fails early does not read to the end; its status and stderr say why.
    thread::Builder::new().spawn(move || stdin.write_all(&input))?;
    let (stdout, stderr) = (drain(stdout)?, drain(stderr)?);
    let Ok(stdout) = stdout.recv_timeout(tools.deadline.left()) else {
        return Ok(None);
    };
    let Ok(stderr) = stderr.recv_timeout(tools.deadline.left()) else {
        return Ok(None);
    };
    // With both pipes closed it is ending, so this hardly ever goes round.
    while !tools.deadline.is_over() {
        if let Some(status) = child.try_wait()? {
            return Ok(Some((status, stdout, stderr)));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(None)
}

fn drain(mut pipe: impl Read + Send + 'static) -> io::Result<mpsc::Receiver<String>> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a failure is still worth reading; nobody may be listening any more.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    })?;
    Ok(receiver)
}

// === impl Failure ===

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(names) => {
                write!(
                    f,
                    "none of {} is on the node's PATH or in the usual directories",
                    names.join(", ")
                )
            }
            Self::Start(program, e) => write!(f, "{} could not be run: {e}", program.display()),
            Self::Refused(program, status, stderr) => {
                let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
                let words: String = stderr.chars().take(300).collect();
                write!(f, "{} failed ({status}): {words}", program.display())
            }
            Self::Late(program, after) => {
                write!(
                    f,
                    "{} was not over after {:.1} s and was stopped",
                    program.display(),
                    after.as_secs_f32()
                )
            }
        }
    }
}
