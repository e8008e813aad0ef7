//! Child processes and their resource use.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::sys;

/// The resource use of a program, or of several from the first start to the last end.
pub(crate) struct Taken {
    pub(crate) wall: Duration,
    /// User and system time of the children and of the processes they waited for.
    pub(crate) cpu: Duration,
    /// Sum of each child's peak resident memory.
    pub(crate) peak_kib: i64,
    /// The last exit code that was not 0, or minus the signal number.
    pub(crate) exit_code: i32,
}

/// Runs a program with this process's stdin, and with stderr for both outputs.
pub(crate) fn run(program: &str, arguments: &[&str]) -> io::Result<Taken> {
    let mut command = Command::new(program);
    command.args(arguments).stdout(our_stderr()?);
    let started = Instant::now();
    let child = command.spawn()?;
    all_of([child], started)
}

/// Runs a program several times at once: the n-th with the environment `n.environment` and the stdin `n.stdin`.
pub(crate) fn run_at_once(program: &str, folder: &Path, times: usize) -> io::Result<Taken> {
    let command = |n: usize| -> io::Result<Command> {
        let environment = fs::read_to_string(folder.join(format!("{n}.environment")))?;
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(environment.lines().filter_map(|line| line.split_once('=')))
            .stdin(File::open(folder.join(format!("{n}.stdin")))?)
            .stdout(our_stderr()?);
        Ok(command)
    };
    let mut commands = (0..times).map(command).collect::<io::Result<Vec<_>>>()?;
    let started = Instant::now();
    let children = commands
        .iter_mut()
        .map(Command::spawn)
        .collect::<io::Result<Vec<_>>>()?;
    all_of(children, started)
}

fn all_of(children: impl IntoIterator<Item = Child>, started: Instant) -> io::Result<Taken> {
    let mut taken = Taken {
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        peak_kib: 0,
        exit_code: 0,
    };
    for child in children {
        let (status, usage) = sys::wait(child.id())?;
        taken.wall = started.elapsed();
        taken.cpu += duration(usage.ru_utime) + duration(usage.ru_stime);
        taken.peak_kib += usage.ru_maxrss;
        let exit_code = if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            -libc::WTERMSIG(status)
        };
        if exit_code != 0 {
            taken.exit_code = exit_code;
        }
    }
    Ok(taken)
}

fn our_stderr() -> io::Result<Stdio> {
    let stderr: OwnedFd = io::stderr().as_fd().try_clone_to_owned()?;
    Ok(Stdio::from(stderr))
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
}
