//! strace in front of a program under test.

use std::{
    ffi::OsString,
    path::Path,
    process::{Command, Stdio},
};

/// Returns the command words that run a program under strace: all its threads and children, the trace in `output`.
pub fn strace(output: &Path, options: &[&str]) -> Vec<OsString> {
    ["strace", "-f", "-qq", "-o"]
        .map(OsString::from)
        .into_iter()
        .chain([output.into()])
        .chain(options.iter().map(OsString::from))
        .collect()
}

/// Returns a command that runs `program` under strace, with its arguments, no variables but its own, and no stdin.
pub fn straced(output: &Path, options: &[&str], program: &Command) -> Command {
    let words = strace(output, options);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .arg(program.get_program())
        .args(program.get_args())
        .env_clear()
        .envs(
            program
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(Stdio::null());
    command
}
