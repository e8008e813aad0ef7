//! The system calls this program needs beyond std. The only module with `unsafe`.
#![allow(
    unsafe_code,
    reason = "wait4, setns and netlink sockets exist only as system calls"
)]

use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::Duration,
};

/// Waits for a child and returns its status and the resource use of it and of the processes it waited for.
pub(crate) fn wait(child: u32) -> io::Result<(libc::c_int, libc::rusage)> {
    let pid = libc::pid_t::try_from(child).map_err(io::Error::other)?;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live locals of the right types; the pid is a child that only this call waits for.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    if waited != pid {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled it in, and all zeroes are a valid value too.
    Ok((status, unsafe { usage.assume_init() }))
}

/// Returns the CPU time of a process, including its ended threads.
pub(crate) fn cpu_time(process: libc::pid_t) -> io::Result<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the pointer is to a live local of the right type.
    let errno = unsafe { libc::clock_getcpuclockid(process, &raw mut clock) };
    if errno != 0 {
        return Err(io::Error::from_raw_os_error(errno));
    }
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is to a live local of the right type.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled it in, and all zeroes are a valid value too.
    let time = unsafe { time.assume_init() };
    let parts = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    let (Ok(seconds), Ok(nanoseconds)) = parts else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok(Duration::new(seconds, nanoseconds))
}

/// Moves the calling thread into the network namespace.
pub(crate) fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open while `namespace` is borrowed; no memory is passed.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends one datagram to nf_tables, receives one, and returns its length.
pub(crate) fn ask_netfilter(datagram: &[u8], answer: &mut [u8]) -> io::Result<usize> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: takes three numbers.
    let raw = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_NETFILTER) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: pointer and length are those of a live slice. Without an address a netlink socket sends to the kernel.
    let sent = unsafe { libc::send(socket.as_raw_fd(), datagram.as_ptr().cast(), datagram.len(), 0) };
    if usize::try_from(sent) != Ok(datagram.len()) {
        return Err(io::Error::last_os_error());
    }
    let start = answer.as_mut_ptr();
    // SAFETY: pointer and length are those of a live slice that is borrowed exclusively.
    let received = unsafe { libc::recv(socket.as_raw_fd(), start.cast(), answer.len(), 0) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}
