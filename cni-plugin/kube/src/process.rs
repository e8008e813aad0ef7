//! One child process with a deadline, for every program that ours start: it and its children are stopped together, and
//! its output is bounded.

use std::{
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::deadline::Deadline;

/// How much of stderr is kept, in bytes.
const STDERR_LIMIT: u64 = 16 << 10;
/// How long stderr may stay open after the program has ended; a background process may have inherited it.
const STDERR_GRACE: Duration = Duration::from_millis(100);

/// What became of a program that was started.
#[derive(Debug)]
pub struct Output {
    /// How it exited, or why it was killed.
    pub exit: Result<ExitStatus, Killed>,
    /// Its stdout.
    pub stdout: Vec<u8>,
    /// The first 16 KiB of its stderr.
    pub stderr: Vec<u8>,
}

/// Why a program was killed.
#[derive(Debug)]
pub enum Killed {
    /// It was still running at the deadline.
    Deadline,
    /// It wrote more than the limit to stdout.
    Output,
    /// Its output or its exit status could not be read.
    Io(io::Error),
}

/// Runs a program to its end, or to the deadline. `stdout_limit` is in bytes.
///
/// # Errors
/// When it cannot be started.
pub fn run(command: &mut Command, input: &[u8], stdout_limit: u64, deadline: Deadline) -> io::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what it starts can be killed with it.
        .process_group(0)
        .spawn()?;
    let stdout = collect(child.stdout.take(), stdout_limit);
    let stderr = collect(child.stderr.take(), STDERR_LIMIT);
    feed(&mut child, input);
    let mut output = Output {
        exit: Err(Killed::Deadline),
        stdout: Vec::new(),
        stderr: Vec::new(),
    };
    match wait(&mut child, &stdout, stdout_limit, deadline) {
        Ok((status, stdout)) => (output.exit, output.stdout) = (Ok(status), stdout),
        Err(killed) => {
            // Not waited for yet, so its process ID cannot belong to another process.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
            output.exit = Err(killed);
        }
    }
    if let Ok(Ok(bytes)) = stderr.recv_timeout(STDERR_GRACE) {
        output.stderr = bytes;
    }
    Ok(output)
}

/// Writes the input on a thread: a program that does not read it must not hold us up. One that ends before it has read
/// everything reports why by its status.
fn feed(child: &mut Child, input: &[u8]) {
    if let Some(mut stdin) = child.stdin.take().filter(|_| !input.is_empty()) {
        let input = input.to_owned();
        let _ = thread::Builder::new().spawn(move || stdin.write_all(&input));
    }
}

/// Reads a pipe to its end on a thread: neither pipe may fill up while the other one is read. Above the limit one byte
/// is kept and the rest is dropped, so that the writer is not blocked.
fn collect(pipe: Option<impl Read + Send + 'static>, limit: u64) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    // If no thread can be started, the sender is dropped with the closure and the receiver reports that at once.
    let _ = thread::Builder::new().spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut bytes = Vec::new();
        let read = pipe.by_ref().take(limit + 1).read_to_end(&mut bytes);
        let _ = sender.send(read.map(|_| bytes));
        let _ = io::copy(&mut pipe, &mut io::sink());
    });
    receiver
}

/// Waits for the end of stdout and then for the exit.
fn wait(
    child: &mut Child,
    stdout: &Receiver<io::Result<Vec<u8>>>,
    limit: u64,
    deadline: Deadline,
) -> Result<(ExitStatus, Vec<u8>), Killed> {
    let stdout = match stdout.recv_timeout(deadline.left()) {
        Ok(read) => read.map_err(Killed::Io)?,
        Err(RecvTimeoutError::Timeout) => return Err(Killed::Deadline),
        Err(RecvTimeoutError::Disconnected) => {
            return Err(Killed::Io(io::Error::other("no thread could be started")));
        }
    };
    if stdout.len() as u64 > limit {
        return Err(Killed::Output);
    }
    // It has closed stdout and is about to exit; the standard library has no wait with a timeout.
    loop {
        match child.try_wait().map_err(Killed::Io)? {
            Some(status) => return Ok((status, stdout)),
            None if deadline.is_over() => return Err(Killed::Deadline),
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &[u8], time: Duration) -> Output {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(&mut command, input, 1000, Deadline::after(time)).unwrap()
    }

    #[test]
    fn output_status_and_input_are_passed() {
        let output = shell("cat; echo why >&2; exit 3", b"in", Duration::from_secs(20));
        assert_eq!(output.exit.unwrap().code(), Some(3));
        assert_eq!(
            (output.stdout.as_slice(), output.stderr.as_slice()),
            (&b"in"[..], &b"why\n"[..])
        );
    }

    #[test]
    fn program_and_children_are_killed_at_deadline() {
        let output = shell(
            "echo why >&2; sleep 600 & sleep 600",
            b"",
            Duration::from_millis(300),
        );
        assert!(matches!(output.exit, Err(Killed::Deadline)), "{output:?}");
        // Stderr ends only when the children have ended, too.
        assert_eq!(output.stderr, b"why\n");
    }

    #[test]
    fn too_much_output_is_killed() {
        let output = shell("yes", b"", Duration::from_secs(20));
        assert!(matches!(output.exit, Err(Killed::Output)), "{output:?}");
    }

    #[test]
    fn unread_input_does_not_block() {
        let output = shell("exit 0", &[b'x'; 1 << 20], Duration::from_secs(20));
        assert!(output.exit.unwrap().success());
    }
}
