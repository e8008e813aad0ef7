//! The system calls it takes to follow a program from system call to system call (ptrace(2)).
#![allow(unsafe_code, reason = "ptrace has no safe interface in std")]

use std::{
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitStatus},
};

/// A process or a thread of one.
pub(super) type Id = libc::pid_t;

/// Why a traced thread is not running.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stopped {
    /// It is about to enter a system call, or has just left it; which of the two only counting tells.
    AtCall,
    /// For this signal, which it has yet to get; 0 for a stop that is only the tracing's.
    For(libc::c_int),
    /// For ever.
    Ended(ExitStatus),
}

/// Starts a program stopped before its first instruction, traced by the calling thread.
pub(super) fn spawn_traced(command: &mut Command) -> io::Result<(Child, Id)> {
    let trace_me = || {
        // SAFETY: this request takes nothing but its own number.
        match unsafe { libc::ptrace(libc::PTRACE_TRACEME) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes one system call; it allocates nothing and takes no lock.
    let child = unsafe { command.pre_exec(trace_me) }.spawn()?;
    let id = child.id().cast_signed();
    wait(id)?;
    // Its threads are traced too, and all of it ends with this thread.
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SETOPTIONS, id, options)?;
    Ok((child, id))
}

/// The next thread of the traced program that stops.
pub(super) fn wait_any() -> io::Result<(Id, Stopped)> {
    // Of the calling thread's children only: those of other threads are not ours to wait for.
    wait(-1)
}

/// Lets a thread run to its next system call, with this signal unless it is 0.
pub(super) fn resume(thread: Id, signal: libc::c_int) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, thread, signal)
}

/// Ends the traced program. It has not been waited for, so the number is still its own.
pub(super) fn kill(process: Id) {
    // SAFETY: takes two numbers.
    unsafe { libc::kill(process, libc::SIGKILL) };
}

fn request(what: libc::c_uint, thread: Id, data: libc::c_int) -> io::Result<()> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the requests made here take a number as data, no memory of ours.
    let result = unsafe { libc::ptrace(what, thread, none, libc::c_long::from(data)) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn wait(whom: Id) -> io::Result<(Id, Stopped)> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let id = unsafe { libc::waitpid(whom, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    if id < 0 {
        return Err(io::Error::last_os_error());
    }
    let stopped = match libc::WIFSTOPPED(status) {
        false => Stopped::Ended(ExitStatus::from_raw(status)),
        true => match libc::WSTOPSIG(status) {
            signal if signal == libc::SIGTRAP | 0x80 => Stopped::AtCall,
            // After exec, at the making of a thread, and at a thread's beginning.
            libc::SIGTRAP | libc::SIGSTOP => Stopped::For(0),
            signal => Stopped::For(signal),
        },
    };
    Ok((id, stopped))
}
