//! The system calls the tests' namespaces need. The only unsafe code of this crate.
#![allow(
    unsafe_code,
    reason = "namespaces, thread credentials and SO_ORIGINAL_DST have no safe interface in std"
)]

use std::{
    ffi::CStr,
    fs::File,
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd},
    time::Duration,
};

/// `SO_ORIGINAL_DST` and `IP6T_SO_ORIGINAL_DST` (linux/netfilter_ipv4.h, linux/netfilter_ipv6/ip6_tables.h).
const ORIGINAL_DST: libc::c_int = 80;

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Puts the calling thread into a network namespace of its own.
pub(super) fn unshare_net() -> io::Result<()> {
    // SAFETY: takes a flag; changes only the calling thread's namespace.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

/// Puts the calling thread into the namespace the file stands for.
pub(super) fn set_net(namespace: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `namespace` is borrowed.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
}

/// Ends the listening itself, and not only our part in it: a child of another test that is about to become another
/// program may hold the socket for a moment longer.
pub(super) fn stop_listening(socket: &TcpListener) {
    // SAFETY: takes two numbers; the descriptor is open for as long as `socket` is borrowed.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Makes `target` another name of `source`.
pub(super) fn bind_mount(source: &CStr, target: &CStr) -> io::Result<()> {
    let none = std::ptr::null();
    // SAFETY: both strings end in NUL; a bind mount reads neither file system type nor data.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), none, libc::MS_BIND, none.cast()) })
}

/// Takes a mount away, now for new users, later for those that still hold it.
pub(super) fn unmount(target: &CStr) -> io::Result<()> {
    // SAFETY: the string ends in NUL.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) })
}

/// Makes the calling thread, and no other, act as this user and group, with no further groups.
///
/// Raw calls, because glibc's `setresuid` changes every thread of the process.
pub(super) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: no pointer is read for a list of length 0.
    let groups = unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) };
    if groups != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes three numbers.
    if unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes three numbers.
    if unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Makes the calling thread, and what it starts from now on, meet a kernel without netfilter's netlink socket.
pub(super) fn refuse_netfilter_sockets() -> io::Result<()> {
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0);
    // The system call's number, then its arguments of 8 bytes each, from 16 on (`struct seccomp_data`); the low half
    // comes first on every machine these tests run on. Each comparison jumps to the last line when it fails.
    let is = |value: u32, lines: u8| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, lines);
    let answer = |value| instruction(libc::BPF_RET | libc::BPF_K, value, 0);
    let mut program = [
        load(0),
        is(libc::SYS_socket as u32, 5),
        load(16),
        is(libc::AF_NETLINK as u32, 3),
        load(32),
        is(libc::NETLINK_NETFILTER as u32, 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: takes numbers. Nothing started from here gains rights by a set-user-id bit; root needs none.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: the program and its instructions outlive the call, which copies them.
    let set = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    check(set as libc::c_int)
}

fn instruction(code: u32, value: u32, when_false: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: when_false,
        k: value,
    }
}

/// Waits until one of the descriptors can be read; true for each that can.
pub(super) fn wait_readable(descriptors: &[BorrowedFd<'_>]) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    loop {
        // SAFETY: pointer and length are those of a live vector.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        if ready >= 0 {
            return Ok(polled.iter().map(|p| p.revents != 0).collect());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Where the client wanted to go, as conntrack remembers it.
pub(super) fn original_destination(accepted: &TcpStream) -> io::Result<SocketAddr> {
    match accepted.local_addr()? {
        SocketAddr::V4(_) => {
            // SAFETY: all zeros is a valid sockaddr_in.
            let mut found: libc::sockaddr_in = unsafe { mem::zeroed() };
            socket_option(accepted, libc::SOL_IP, &mut found)?;
            let address = Ipv4Addr::from_bits(u32::from_be(found.sin_addr.s_addr));
            Ok((address, u16::from_be(found.sin_port)).into())
        }
        SocketAddr::V6(_) => {
            // SAFETY: all zeros is a valid sockaddr_in6.
            let mut found: libc::sockaddr_in6 = unsafe { mem::zeroed() };
            socket_option(accepted, libc::SOL_IPV6, &mut found)?;
            let address = Ipv6Addr::from(found.sin6_addr.s6_addr);
            Ok((address, u16::from_be(found.sin6_port)).into())
        }
    }
}

/// `T` must be a plain C structure of which every bit pattern is valid.
fn socket_option<T>(socket: &TcpStream, level: libc::c_int, found: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let found: *mut T = found;
    // SAFETY: `found` has room for `length` bytes and outlives the call.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            ORIGINAL_DST,
            found.cast(),
            &raw mut length,
        )
    })
}

/// A connection from an address of our choice, which std has no call for.
pub(super) fn connect_from(from: IpAddr, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // SAFETY: takes three numbers.
    let raw = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours alone.
    let stream = unsafe { TcpStream::from_raw_fd(raw) };
    // Linux bounds `connect` by the send timeout (socket(7)).
    stream.set_write_timeout(Some(patience))?;
    with_address(&(from, 0).into(), |address, length| {
        // SAFETY: `address` points to `length` bytes that outlive the call.
        check(unsafe { libc::bind(stream.as_raw_fd(), address, length) })
    })?;
    with_address(&to, |address, length| {
        // SAFETY: `address` points to `length` bytes that outlive the call.
        check(unsafe { libc::connect(stream.as_raw_fd(), address, length) })
    })?;
    Ok(stream)
}

/// Hands an address to a system call in the kernel's form.
fn with_address<T>(
    address: &SocketAddr,
    call: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> T,
) -> T {
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: v4.ip().to_bits().to_be(),
                },
                sin_zero: [0; 8],
            };
            call((&raw const raw).cast(), size_of_val(&raw) as libc::socklen_t)
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            call((&raw const raw).cast(), size_of_val(&raw) as libc::socklen_t)
        }
    }
}
