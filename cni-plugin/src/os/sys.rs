//! The system calls that neither std nor rustix offers a safe function for. The only unsafe code of the plugin besides
//! the name `main`: single calls, each with its reason.
#![allow(
    unsafe_code,
    reason = "an interface's IPv4 address, netlink options and signals exist only as raw system calls"
)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
    stdio,
};

fn check(result: libc::c_int) -> io::Result<()> {
    if result >= 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns true when the interface has an IPv4 address in the calling thread's namespace.
///
/// An ioctl, because a netlink dump takes one system call more.
pub(crate) fn has_ipv4_address(interface: &str) -> bool {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_addr: libc::sockaddr {
                sa_family: 0,
                sa_data: [0; 14],
            },
        },
    };
    // The name must be followed by a NUL.
    if interface.len() >= request.ifr_name.len() {
        return false;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    let Ok(socket) = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None) else {
        return false;
    };
    // SAFETY: the kernel reads the name of `request` and writes its address; `request` outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFADDR, &raw mut request) }).is_ok()
}

/// Switches on an option of a netlink socket (`NETLINK_EXT_ACK` and others).
pub(crate) fn enable_netlink_option(socket: impl AsFd, option: libc::c_int) -> io::Result<()> {
    let (fd, on): (_, libc::c_int) = (socket.as_fd().as_raw_fd(), 1);
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `on`, which outlives the call.
    check(unsafe { libc::setsockopt(fd, libc::SOL_NETLINK, option, (&raw const on).cast(), length) })
}

/// Makes a write to a broken pipe fail with `EPIPE` instead of ending the process.
pub(crate) fn ignore_broken_pipes() {
    // SAFETY: no handler is installed; the kernel drops the signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Returns true when descriptor 0, 1 or 2 is closed.
pub(crate) fn has_closed_stdio() -> bool {
    let streams = [stdio::stdin(), stdio::stdout(), stdio::stderr()];
    let mut streams = streams.map(|stream| PollFd::from_borrowed_fd(stream, PollFlags::empty()));
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // Without events and with a timeout of zero, the call only reports invalid descriptors.
    poll(&mut streams, Some(&now)).is_ok()
        && streams
            .iter()
            .any(|stream| stream.revents().contains(PollFlags::NVAL))
}
