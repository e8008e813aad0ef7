//! System calls without an interface in the standard library: signals as a file, waiting for several files, extended
//! attributes.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr},
    io::Errno,
};

/// SIGTERM and SIGINT, blocked and queued. They interrupt nothing, and a signal sent while the process starts is not lost.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals. Call it before any thread is started, because threads inherit the mask.
    pub fn block() -> io::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
        signals.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(SignalFd::with_flags(&signals, flags)?))
    }

    /// Returns true if a signal has arrived since the last call.
    pub fn arrived(&mut self) -> bool {
        let mut any = false;
        while matches!(self.0.read_signal(), Ok(Some(_))) {
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

/// Waits until one of the files is readable or the time is over; may return early.
pub fn wait_readable(files: &[BorrowedFd<'_>], at_most: Duration) -> io::Result<()> {
    let mut files: Vec<PollFd<'_>> = files
        .iter()
        .map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN))
        .collect();
    let timeout = Timespec::try_from(at_most).ok();
    match poll(&mut files, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Copies every extended attribute, such as an SELinux label, from one file to another. Attributes that cannot be set are
/// left out: the kernel has already labelled the new file after its directory.
pub fn copy_attributes(from: &File, to: &File) {
    let mut names = vec![0u8; 4096];
    let length = flistxattr(from, &mut names[..]).unwrap_or(0);
    for name in names[..length].split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let mut value = vec![0u8; 65_536];
        if let Ok(length) = fgetxattr(from, name, &mut value[..]) {
            let _ = fsetxattr(to, name, &value[..length], XattrFlags::empty());
        }
    }
}

/// Returns the effective user ID of this process.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
