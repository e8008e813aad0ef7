//! System calls that the standard library has no name for: signals as a file, waiting for several files, extended
//! attributes. The home of `unsafe` in this crate; knows nothing of what it is used for.
#![allow(unsafe_code, reason = "the one module that talks to the kernel by hand")]

use std::{
    ffi::CString,
    fs::File,
    io::{self, Read},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    time::Duration,
};

/// The signals that ask this process to end. From the moment this exists they are only seen by reading it, so that none
/// interrupts a file that is half replaced, and none is lost while the process starts.
#[derive(Debug)]
pub struct Signals(File);

impl Signals {
    /// Takes SIGTERM and SIGINT over. To be called before any thread is started: the mask is inherited.
    pub fn take_over() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointer is to memory of the right type, which the call fills.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        for signal in [libc::SIGTERM, libc::SIGINT] {
            // SAFETY: the set was filled by `sigemptyset`.
            unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
        }
        // SAFETY: a filled set; the old mask is not wanted.
        check(unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut()) })?;
        // SAFETY: a filled set; -1 asks for a new descriptor.
        let fd = check(unsafe { libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
        // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// True when at least one of the signals has come since the last call.
    pub fn came(&mut self) -> bool {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        let mut any = false;
        while matches!(self.0.read(&mut info), Ok(n) if n > 0) {
            any = true;
        }
        any
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of the files can be read or the time is over. Returns early when interrupted: callers look anyway.
pub fn wait_readable(files: &[BorrowedFd<'_>], at_most: Duration) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> = files
        .iter()
        .map(|file| libc::pollfd {
            fd: file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // Rounded up: a wait of less than a millisecond must not become a busy loop.
    let millis = i32::try_from(at_most.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    let count = libc::nfds_t::try_from(polled.len()).unwrap_or(0);
    // SAFETY: the pointer and the count are those of one vector, which outlives the call.
    match check(unsafe { libc::poll(polled.as_mut_ptr(), count, millis) }) {
        Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
        _ => Ok(()),
    }
}

/// Gives one file every extended attribute of another (an SELinux label is one). What may not be set is left out: the
/// kernel has already given the new file the label that its folder asks for.
pub fn copy_attributes(from: &File, to: &File) {
    let mut names = vec![0u8; 4096];
    // SAFETY: the pointer and the length are those of one buffer.
    let length = unsafe { libc::flistxattr(from.as_raw_fd(), names.as_mut_ptr().cast(), names.len()) };
    names.truncate(usize::try_from(length).unwrap_or(0));
    for name in names.split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let Ok(name) = CString::new(name) else { continue };
        let mut value = vec![0u8; 65_536];
        let (fd, room) = (from.as_raw_fd(), value.len());
        // SAFETY: the name ends in NUL, the pointer and the length are those of one buffer.
        let length = unsafe { libc::fgetxattr(fd, name.as_ptr(), value.as_mut_ptr().cast(), room) };
        let Ok(length) = usize::try_from(length) else {
            continue;
        };
        // SAFETY: the name ends in NUL, and `length` bytes of the buffer were filled above.
        unsafe { libc::fsetxattr(to.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), length, 0) };
    }
}

/// The user this process acts as.
pub fn effective_uid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
