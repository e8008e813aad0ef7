//! The proof that a plugin runs on this node: it is asked for the versions it speaks (CNI's VERSION), as a runtime asks.

use std::{
    io::{self, Read, Write},
    os::fd::AsFd,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use evergreen_kube::deadline::Deadline;

use crate::sys;

/// How long the plugin may take to say its version.
const VERSION_TAKES: Duration = Duration::from_secs(5);

/// Asks the plugin for the versions it speaks, as a runtime does.
pub fn ask(plugin: &Path) -> Result<()> {
    let mut child = start(plugin)?;
    let answer = read_answer(&mut child);
    // Dead or alive: it has had its time. An error here only says that it is gone already.
    let _ = child.kill();
    let status = child.wait().context("wait for it")?;
    let answer = answer?;
    let versions: Option<serde_json::Value> = serde_json::from_slice(&answer).ok();
    let speaks = versions
        .as_ref()
        .and_then(|v| v.get("supportedVersions"))
        .and_then(|v| v.as_array());
    if speaks.is_none_or(Vec::is_empty) {
        let shown: String = String::from_utf8_lossy(&answer).chars().take(200).collect();
        bail!("asked for its versions, it ended with {status} and said {shown:?}");
    }
    Ok(())
}

fn start(plugin: &Path) -> Result<Child> {
    let mut command = Command::new(plugin);
    command.env_clear().env("CNI_COMMAND", "VERSION");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // A process that was forked elsewhere while we wrote the file may hold it open for writing until it execs.
    for _ in 0..20 {
        match command.spawn() {
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(10))
            }
            started => return started.context("run it"),
        }
    }
    command.spawn().context("run it")
}

fn read_answer(child: &mut Child) -> Result<Vec<u8>> {
    if let Some(mut stdin) = child.stdin.take() {
        // It may answer without reading; a closed pipe is no failure.
        let _ = stdin.write_all(br#"{"cniVersion":"1.0.0"}"#);
    }
    let Some(mut stdout) = child.stdout.take() else {
        bail!("its stdout is gone")
    };
    let deadline = Deadline::after(VERSION_TAKES);
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        sys::wait_readable(&[stdout.as_fd()], deadline.left()).context("wait for its answer")?;
        if deadline.is_over() {
            bail!(
                "asked for its versions, it did not answer within {} s",
                VERSION_TAKES.as_secs()
            );
        }
        match stdout.read(&mut buffer).context("read its answer")? {
            0 => return Ok(answer),
            n if answer.len() < 64 * 1024 => answer.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            _ => bail!("asked for its versions, it does not stop talking"),
        }
    }
}
