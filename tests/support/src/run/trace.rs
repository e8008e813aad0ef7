//! A call that is ended by SIGKILL at one of its system calls, as a runtime that loses its patience may end it anywhere.

use std::{
    collections::HashSet,
    io::{Read, Write},
    process::ExitStatus,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::{
    CniCall, CniReply,
    sys::{self, Id, Stopped},
};

/// When a call is killed. Its system calls are counted from 1, over all its threads.
#[derive(Debug, Clone, Copy)]
pub enum Kill {
    /// It runs to its end.
    Never,
    /// Before the kernel sees this system call.
    Before(usize),
    /// This long after the kernel got this system call.
    During(usize, Duration),
}

/// A call that was followed.
#[derive(Debug)]
pub struct Followed {
    /// How many system calls it made.
    pub calls: usize,
    /// Its end; without an exit code when it was killed.
    pub reply: CniReply,
}

impl CniCall {
    /// Runs it until it ends or is killed.
    pub fn run_until(&self, kill: Kill) -> Result<Followed> {
        // On a thread of its own: tracing belongs to a thread, and this one has no other child.
        let run = || self.follow(kill).with_context(|| format!("following {self}"));
        thread::scope(|scope| scope.spawn(run).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn follow(&self, kill: Kill) -> Result<Followed> {
        let (mut child, process) = sys::spawn_traced(&mut self.command_under(&[]))?;
        let mut stdin = child.stdin.take().context("no pipe to stdin")?;
        ensure!(
            self.stdin.len() <= 65536,
            "stdin must fit into a pipe, since nobody reads it yet"
        );
        stdin.write_all(&self.stdin)?;
        drop(stdin);
        let (calls, status) = drive(process, kill)?;
        let mut output = [Vec::new(), Vec::new()];
        child
            .stdout
            .take()
            .context("no pipe from stdout")?
            .read_to_end(&mut output[0])?;
        child
            .stderr
            .take()
            .context("no pipe from stderr")?
            .read_to_end(&mut output[1])?;
        let [stdout, stderr] = output.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let exit_code = status.code();
        Ok(Followed {
            calls,
            reply: CniReply {
                exit_code,
                stdout,
                stderr,
            },
        })
    }
}

/// Takes a stopped process from system call to system call; how many, and its end.
fn drive(process: Id, kill: Kill) -> Result<(usize, ExitStatus)> {
    let mut calls = 0;
    let mut inside = HashSet::new();
    sys::resume(process, 0)?;
    loop {
        let (thread, stopped) = sys::wait_any()?;
        let signal = match stopped {
            Stopped::Ended(status) if thread == process => return Ok((calls, status)),
            Stopped::Ended(_) => continue,
            Stopped::For(signal) => signal,
            Stopped::AtCall => {
                if inside.remove(&thread) {
                    0
                } else {
                    inside.insert(thread);
                    calls += 1;
                    match kill {
                        Kill::Before(n) if n == calls => sys::kill(process),
                        Kill::During(n, delay) if n == calls => {
                            // The thread may be gone before it has begun; then there is nothing left to kill.
                            let _ = sys::resume(thread, 0);
                            let begun = Instant::now();
                            while begun.elapsed() < delay {
                                std::hint::spin_loop();
                            }
                            sys::kill(process);
                            continue;
                        }
                        _ => {}
                    }
                    0
                }
            }
        };
        // A thread that has been killed meanwhile cannot be resumed; the next wait tells.
        let _ = sys::resume(thread, signal);
    }
}
