//! CNI's VERSION call, made as a runtime makes it: the proof that a plugin runs on this node.

use std::{io, path::Path, process::Command, thread, time::Duration};

use anyhow::{Context, Result, bail};
use evergreen_kube::{
    deadline::Deadline,
    process::{self, Killed, Output},
};

/// The longest a plugin may take to answer.
const MAX_TIME: Duration = Duration::from_secs(5);
/// The largest answer that is read, in bytes.
const MAX_ANSWER: u64 = 64 << 10;

/// Fails unless the plugin answers with the versions it supports.
pub fn ask(plugin: &Path) -> Result<()> {
    let output = run(plugin).context("run it")?;
    let status = match output.exit {
        Ok(status) => status,
        Err(Killed::Deadline) => bail!("it did not answer VERSION within {} s", MAX_TIME.as_secs()),
        Err(Killed::Output) => bail!("its answer to VERSION is larger than {} KiB", MAX_ANSWER >> 10),
        Err(Killed::Io(error)) => return Err(error).context("read its answer"),
    };
    let versions: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
    let supported = versions
        .as_ref()
        .and_then(|v| v.get("supportedVersions"))
        .and_then(|v| v.as_array());
    if supported.is_none_or(Vec::is_empty) {
        let shown: String = String::from_utf8_lossy(&output.stdout)
            .chars()
            .take(200)
            .collect();
        bail!("VERSION ended with {status} and the answer {shown:?}");
    }
    Ok(())
}

fn run(plugin: &Path) -> io::Result<Output> {
    let mut command = Command::new(plugin);
    command.env_clear().env("CNI_COMMAND", "VERSION");
    let input = br#"{"cniVersion":"1.0.0"}"#;
    let deadline = Deadline::after(MAX_TIME);
    loop {
        match process::run(&mut command, input, MAX_ANSWER, deadline) {
            // A child forked while this process was writing the file holds it open for writing until it execs.
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && !deadline.is_over() => {
                thread::sleep(Duration::from_millis(10));
            }
            ended => return ended,
        }
    }
}
