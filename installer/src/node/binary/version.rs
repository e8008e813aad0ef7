//! The proof that a plugin runs on this node: it is asked for the versions it speaks (CNI's VERSION), as a runtime asks.

use std::{io, path::Path, process::Command, thread, time::Duration};

use anyhow::{Context, Result, bail};
use evergreen_kube::{
    deadline::Deadline,
    process::{self, Killed, Output},
};

/// How long the plugin may take to say its version.
const VERSION_TAKES: Duration = Duration::from_secs(5);
/// No answer is longer, in bytes.
const LARGEST_ANSWER: u64 = 64 << 10;

/// Asks the plugin for the versions it speaks, as a runtime does.
pub fn ask(plugin: &Path) -> Result<()> {
    let output = run(plugin).context("run it")?;
    let status = match output.exit {
        Ok(status) => status,
        Err(Killed::Deadline) => bail!(
            "asked for its versions, it did not answer within {} s",
            VERSION_TAKES.as_secs()
        ),
        Err(Killed::Output) => bail!("asked for its versions, it does not stop talking"),
        Err(Killed::Io(error)) => return Err(error).context("read its answer"),
    };
    let versions: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
    let speaks = versions
        .as_ref()
        .and_then(|v| v.get("supportedVersions"))
        .and_then(|v| v.as_array());
    if speaks.is_none_or(Vec::is_empty) {
        let shown: String = String::from_utf8_lossy(&output.stdout)
            .chars()
            .take(200)
            .collect();
        bail!("asked for its versions, it ended with {status} and said {shown:?}");
    }
    Ok(())
}

fn run(plugin: &Path) -> io::Result<Output> {
    let mut command = Command::new(plugin);
    command.env_clear().env("CNI_COMMAND", "VERSION");
    let input = br#"{"cniVersion":"1.0.0"}"#;
    let deadline = Deadline::after(VERSION_TAKES);
    loop {
        match process::run(&mut command, input, LARGEST_ANSWER, deadline) {
            // A process that was forked elsewhere while we wrote the file may hold it open for writing until it execs.
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && !deadline.is_over() => {
                thread::sleep(Duration::from_millis(10));
            }
            ended => return ended,
        }
    }
}
