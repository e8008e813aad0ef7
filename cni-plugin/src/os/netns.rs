//! A network namespace: opened, and entered by a closure on a thread that ends with it.

use std::{
    any::Any,
    fmt,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    thread,
};

use rustix::{
    fs::{OFlags, fstatfs},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use super::sys;
use crate::{
    net::cidr::Family,
    protocol::failure::{CniError, Code},
};

/// `NSFS_MAGIC` (linux/magic.h): the file system of namespaces.
const NAMESPACE_FS: u64 = 0x6e73_6673;

/// An open network namespace. It exists at least as long as this handle.
#[derive(Debug)]
pub struct Netns {
    path: PathBuf,
    handle: File,
}

/// Why a namespace cannot be used.
#[derive(Debug)]
pub struct NetnsError {
    path: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Missing,
    Open(io::Error),
    NotANamespace(&'static str),
    NotANetworkNamespace,
    Thread(io::Error),
    Enter(io::Error),
    Panicked(String),
}

// === impl Netns ===

impl Netns {
    /// Opens the namespace that a runtime names in `CNI_NETNS`. A namespace of another kind is an error of [`Self::run`].
    pub fn open(path: &Path) -> Result<Self, NetnsError> {
        let error = |why| NetnsError {
            path: path.to_owned(),
            why,
        };
        // Without O_NONBLOCK, opening a named pipe would wait for a writer.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path);
        let handle = opened.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => error(Why::Missing),
            _ => error(Why::Open(e)),
        })?;
        if fstatfs(&handle).is_ok_and(|found| found.f_type as u64 == NAMESPACE_FS) {
            return Ok(Self {
                path: path.to_owned(),
                handle,
            });
        }
        let kind = handle.metadata().map_err(|e| error(Why::Open(e)))?.file_type();
        Err(error(Why::NotANamespace(if kind.is_dir() {
            "a directory"
        } else if kind.is_file() {
            "a plain file"
        } else {
            "something else"
        })))
    }

    /// Returns true when this is the namespace of the plugin's own process: on a node, the host's.
    pub fn is_own(&self) -> io::Result<bool> {
        let own = fs::metadata("/proc/self/ns/net")?;
        let this = self.handle.metadata()?;
        Ok((own.dev(), own.ino()) == (this.dev(), this.ino()))
    }

    /// Runs a closure inside the namespace.
    ///
    /// It runs on a thread that ends with it, so that no other work ever runs in the wrong namespace. Processes that the
    /// closure starts are in the namespace, too.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        thread::scope(|scope| {
            let inside = || -> Result<T, Why> {
                self.enter()?;
                Ok(work())
            };
            let thread = thread::Builder::new()
                .name("netns".into())
                .spawn_scoped(scope, inside);
            match thread.map_err(Why::Thread).map(thread::ScopedJoinHandle::join) {
                Ok(Ok(answer)) => answer,
                Ok(Err(panic)) => Err(Why::Panicked(panic_text(&*panic))),
                Err(why) => Err(why),
            }
        })
        .map_err(|why| NetnsError {
            path: self.path.clone(),
            why,
        })
    }

    /// Moves the calling thread into the namespace.
    fn enter(&self) -> Result<(), Why> {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(self.handle.as_fd(), kind).map_err(|e| match e {
            rustix::io::Errno::INVAL => Why::NotANetworkNamespace,
            _ => Why::Enter(e.into()),
        })
    }

    /// Returns the families in which the interface has an address with more than link scope, IPv4 first.
    ///
    /// An interface that does not exist has none.
    pub fn families(&self, interface: &str) -> Result<Vec<Family>, NetnsError> {
        self.run(|| {
            let mut families = Vec::new();
            if sys::has_ipv4_address(interface) {
                families.push(Family::V4);
            }
            // Not /proc/net, which shows the namespace of the process. Absent in kernels without IPv6.
            let table = fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
            if has_ipv6_address(&table, interface) {
                families.push(Family::V6);
            }
            families
        })
    }
}

/// Returns true when `if_inet6` lists an address of the interface with more than link scope.
///
/// A line is `ADDRESS INDEX PREFIX SCOPE FLAGS NAME`, numbers in hex (`if6_seq_show` in net/ipv6/addrconf.c); scope 00 is
/// global, 20 the link, 10 the host.
fn has_ipv6_address(table: &str, interface: &str) -> bool {
    table.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(3);
        words.next() == Some("00") && words.nth(1) == Some(interface)
    })
}

/// Returns the text of a panic, if it has one.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
        .to_owned()
}

// === impl NetnsError ===

impl fmt::Display for NetnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.why {
            Why::Missing => write!(
                f,
                "CNI_NETNS names {path}, which does not exist; the runtime removed it, or it is not visible from where the plugin runs"
            ),
            Why::Open(e) => {
                write!(f, "cannot open {path}, which CNI_NETNS names: {e}")?;
                match e.kind() {
                    io::ErrorKind::PermissionDenied => write!(f, "; the plugin needs to run as root"),
                    _ => write!(f, "; it must be a network namespace, such as /run/netns/NAME"),
                }
            }
            Why::NotANamespace(kind) => write!(
                f,
                "{path} is {kind}, not a network namespace; CNI_NETNS must name one such as /run/netns/NAME or /proc/PID/ns/net"
            ),
            Why::NotANetworkNamespace => write!(
                f,
                "{path} is a namespace, but not a network namespace; CNI_NETNS must name one such as /run/netns/NAME or /proc/PID/ns/net"
            ),
            Why::Thread(e) => {
                write!(
                    f,
                    "cannot start a thread to enter {path}: {e}; the node is at its limit of processes or memory"
                )
            }
            Why::Enter(e) => {
                write!(
                    f,
                    "cannot enter network namespace {path}: {e}; the plugin needs CAP_SYS_ADMIN"
                )
            }
            Why::Panicked(text) => {
                write!(
                    f,
                    "the plugin panicked inside {path} ({text}); this is a bug, please report it"
                )
            }
        }
    }
}

impl std::error::Error for NetnsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            Why::Open(e) | Why::Thread(e) | Why::Enter(e) => Some(e),
            _ => None,
        }
    }
}

impl CniError for NetnsError {
    fn code(&self) -> Code {
        Code::Netns
    }
}

#[cfg(test)]
mod tests;
