//! A child process and what it took. The home of `unsafe` in this program.
#![allow(unsafe_code, reason = "wait4 alone tells what one child used")]

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// What a program took from its start to its end.
pub(crate) struct Taken {
    pub(crate) wall: Duration,
    /// User and system time together, of the child and of those it waited for.
    pub(crate) cpu: Duration,
    /// Peak resident memory of the largest process among them.
    pub(crate) peak_kib: i64,
    /// Minus the signal when one ended it.
    pub(crate) exit_code: i32,
}

/// Runs a program with our stdin, and our stderr for both of its outputs.
pub(crate) fn run(program: &str, arguments: &[&str]) -> io::Result<Taken> {
    let stderr: OwnedFd = io::stderr().as_fd().try_clone_to_owned()?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::from(stderr));
    let started = Instant::now();
    let child = command.spawn()?;
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live locals of the right types; the pid is a child nobody else waits for.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    let wall = started.elapsed();
    if waited != pid {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled it in, and all zeroes would be a value too.
    let usage = unsafe { usage.assume_init() };
    let exit_code = if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        -libc::WTERMSIG(status)
    };
    Ok(Taken {
        wall,
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        peak_kib: usage.ru_maxrss,
        exit_code,
    })
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
}
