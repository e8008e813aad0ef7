//! The system calls std has no safe interface for. The only unsafe code of the plugin, and nothing but single calls.
#![allow(
    unsafe_code,
    reason = "namespaces, netlink sockets and the choice of name sources exist only as system and C library calls"
)]

use std::{
    fs::File,
    io,
    mem::zeroed,
    net::UdpSocket,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::Duration,
};

/// A netlink socket to netfilter, closed when dropped.
#[derive(Debug)]
pub(crate) struct NetfilterSocket(OwnedFd);

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result >= 0 {
        Ok(result)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The `CLONE_NEW...` kind of the namespace a file stands for, or an error when it stands for none.
pub(crate) fn namespace_kind(file: &File) -> io::Result<libc::c_int> {
    // SAFETY: this request takes no argument; on a file that is no namespace the kernel answers ENOTTY.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::NS_GET_NSTYPE) })
}

/// Moves the calling thread, and no other, into the network namespace.
pub(crate) fn enter_network_namespace(namespace: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open while `namespace` is borrowed; no memory is handed over.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// True when the interface has an IPv4 address in the calling thread's namespace.
pub(crate) fn has_ipv4_address(interface: &str) -> bool {
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // One byte less than the room there is, so that the name stays closed by a NUL.
    if interface.len() >= request.ifr_name.len() {
        return false;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    let Ok(socket) = UdpSocket::bind(("0.0.0.0", 0)) else {
        return false;
    };
    let request: *mut libc::ifreq = &raw mut request;
    // SAFETY: the request reads the name of the ifreq and fills in its address; it outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFADDR, request) }).is_ok()
}

impl NetfilterSocket {
    /// A socket in the calling thread's namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes three numbers.
        let raw = check(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_NETFILTER) })?;
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// Sets an option that is a number.
    pub(crate) fn set_option(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        value: libc::c_int,
    ) -> io::Result<()> {
        let length = size_of_val(&value) as libc::socklen_t;
        let value: *const libc::c_int = &raw const value;
        // SAFETY: `value` points to `length` bytes that outlive the call.
        check(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, name, value.cast(), length) }).map(drop)
    }

    /// Bounds every `receive`; `EAGAIN` when it is over.
    pub(crate) fn set_receive_timeout(&self, time: Duration) -> io::Result<()> {
        let value = libc::timeval {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_usec: libc::suseconds_t::from(time.subsec_micros()),
        };
        let length = size_of_val(&value) as libc::socklen_t;
        let (fd, value) = (self.0.as_raw_fd(), &raw const value);
        // SAFETY: `value` points to `length` bytes that outlive the call.
        check(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, value.cast(), length) })
            .map(drop)
    }

    /// Sends one datagram to the kernel, which has worked through it when this returns.
    pub(crate) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        // SAFETY: pointer and length are those of a live slice. Without an address a netlink socket sends to the kernel.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), datagram.as_ptr().cast(), datagram.len(), 0) };
        match usize::try_from(sent) {
            Ok(length) if length == datagram.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// Receives one datagram; its whole length, which is more than the buffer's when it was cut off.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (fd, start) = (self.0.as_raw_fd(), buffer.as_mut_ptr());
        // SAFETY: pointer and length are those of a live slice that is ours alone.
        let length = unsafe { libc::recv(fd, start.cast(), buffer.len(), libc::MSG_TRUNC) };
        usize::try_from(length).map_err(|_| io::Error::last_os_error())
    }
}

/// Makes a write to a pipe that nobody reads an error (`EPIPE`), where it would end the process by a signal.
pub(crate) fn ignore_broken_pipes() {
    // SAFETY: no function of ours is installed; the kernel drops the signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// True when one of the descriptors 0, 1 and 2 is not open.
pub(crate) fn has_closed_stdio() -> bool {
    let mut streams = [0, 1, 2].map(|fd| libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    });
    // SAFETY: pointer and number are those of a live array that is ours alone. Without events and time it only looks.
    let looked = unsafe { libc::poll(streams.as_mut_ptr(), 3, 0) };
    looked > 0 && streams.iter().any(|stream| stream.revents & libc::POLLNVAL != 0)
}
