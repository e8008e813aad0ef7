//! What wakes the main loop: a change in a watched directory, a signal, the credential thread, or the timer. An event only
//! triggers a reconcile pass, so a missed event costs time until the next one and nothing else.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::{self, Read},
    mem,
    os::{fd::AsFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use inotify::{Event as Change, EventMask, Inotify, WatchDescriptor, WatchMask};

use crate::{
    node::{atomic, conflist},
    sys::{self, Signals},
};

/// The longest time between two passes.
const PERIOD: Duration = Duration::from_secs(30);
/// The same while a directory cannot be watched, because it may not exist yet.
const UNWATCHED_PERIOD: Duration = Duration::from_secs(2);
/// A burst of changes ends when a conflist has been written, when no change has followed for this long ...
const QUIET: Duration = Duration::from_millis(5);
/// ... or when the burst has lasted for this long.
const LONGEST_BURST: Duration = Duration::from_millis(50);

/// Why the wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Something may have changed, or the timer has expired.
    Reconcile,
    /// SIGTERM or SIGINT has arrived.
    Shutdown,
}

/// What several changes amount to; the greatest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// Nothing of interest.
    Nothing,
    /// A change that others may follow.
    Change,
    /// A conflist has been written completely: until our entry is in it, pods start without rules.
    Conflist,
}

impl Seen {
    /// Returns what one event amounts to. An overflow of the queue, which has no name, is a change. Our own temporary files
    /// are not: a write that fails would trigger the pass that fails again.
    fn from_event(event: &Change<&OsStr>) -> Self {
        let written = event
            .mask
            .intersects(EventMask::CLOSE_WRITE | EventMask::MOVED_TO);
        match event.name {
            Some(name) if atomic::is_temporary(name) => Self::Nothing,
            Some(name) if written && conflist::is_loaded(Path::new(name)) => Self::Conflist,
            _ => Self::Change,
        }
    }
}

/// Directories, timer, signals and the credential thread as one stream of events.
pub struct Watch {
    inotify: Inotify,
    signals: Signals,
    woken: UnixStream,
    watched: BTreeMap<PathBuf, WatchDescriptor>,
    complete: bool,
}

impl Watch {
    /// Watches nothing but the signals at first. The second value wakes it: write a byte to it.
    pub fn new(signals: Signals) -> Result<(Self, UnixStream)> {
        let (woken, waker) = UnixStream::pair().context("create a socket pair")?;
        for end in [&woken, &waker] {
            end.set_nonblocking(true)
                .context("make a socket pair nonblocking")?;
        }
        let inotify = Inotify::init().context("start inotify (is fs.inotify.max_user_instances reached?)")?;
        let watch = Self {
            inotify,
            signals,
            woken,
            watched: BTreeMap::new(),
            complete: false,
        };
        Ok((watch, waker))
    }

    /// Watches these directories and no others. Call it before each reconcile pass reads them: no change is missed in
    /// between, and a directory that was replaced is watched again.
    pub fn follow<'a>(&mut self, directories: impl IntoIterator<Item = &'a Path>) {
        let mut old = mem::take(&mut self.watched);
        self.complete = true;
        for directory in directories {
            // The kernel returns the same descriptor for a directory that is already watched.
            match self.inotify.watches().add(directory, changes()) {
                Ok(watch) => {
                    self.watched.insert(directory.to_path_buf(), watch);
                }
                Err(_) => self.complete = false,
            }
        }
        old.retain(|_, watch| !self.watched.values().any(|w| w == watch));
        for watch in old.into_values() {
            // The kernel has already dropped those whose directory is gone.
            let _ = self.inotify.watches().remove(watch);
        }
    }

    /// Waits for the next event, at most this long.
    pub fn next(&mut self, at_most: Option<Duration>) -> Result<Event> {
        let period = if self.complete { PERIOD } else { UNWATCHED_PERIOD };
        let mut until = Instant::now() + at_most.map_or(period, |t| t.min(period));
        let mut burst_ends = None;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let files = [self.signals.as_fd(), self.inotify.as_fd(), self.woken.as_fd()];
            sys::wait_readable(&files, left).context("wait for events")?;
            if self.signals.arrived() {
                return Ok(Event::Shutdown);
            }
            let now = Instant::now();
            match self.drain()? {
                Seen::Conflist => return Ok(Event::Reconcile),
                Seen::Change => {
                    let end = *burst_ends.get_or_insert(now + LONGEST_BURST);
                    until = end.min(now + QUIET);
                }
                Seen::Nothing if now >= until => return Ok(Event::Reconcile),
                Seen::Nothing => {}
            }
        }
    }

    /// Reads all pending events.
    fn drain(&mut self) -> Result<Seen> {
        let mut buffer = [0; 4096];
        let mut seen = Seen::Nothing;
        while matches!(self.woken.read(&mut buffer), Ok(n) if n > 0) {
            seen = Seen::Change;
        }
        loop {
            match self.inotify.read_events(&mut buffer) {
                Ok(events) => seen = events.map(|e| Seen::from_event(&e)).fold(seen, Seen::max),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(seen),
                Err(e) => return Err(e).context("read events"),
            }
        }
    }
}

/// Everything that changes a file or its mode, but nothing that a reconcile pass itself does to an unchanged file (open,
/// read, close).
fn changes() -> WatchMask {
    WatchMask::CREATE
        | WatchMask::MODIFY
        | WatchMask::CLOSE_WRITE
        | WatchMask::ATTRIB
        | WatchMask::MOVE
        | WatchMask::DELETE
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF
        | WatchMask::ONLYDIR
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn only_a_complete_conflist_ends_the_burst_early() {
        let dir = Scratch::new();
        let (mut watch, _waker) = Watch::new(Signals::block().unwrap()).unwrap();
        watch.follow([dir.path()]);
        let at = |name: &str| dir.path().join(name);
        assert_eq!(watch.drain().unwrap(), Seen::Nothing);
        let half = File::create(at("10-x.conflist")).unwrap();
        assert_eq!(watch.drain().unwrap(), Seen::Change, "created");
        drop(half);
        assert_eq!(watch.drain().unwrap(), Seen::Conflist, "written in place");
        fs::write(at("10-x.conflist.tmp"), "x").unwrap();
        assert_eq!(watch.drain().unwrap(), Seen::Change, "not named like a conflist");
        fs::rename(at("10-x.conflist.tmp"), at("10-x.conflist")).unwrap();
        assert_eq!(watch.drain().unwrap(), Seen::Conflist, "moved into place");
        fs::remove_file(at("10-x.conflist")).unwrap();
        assert_eq!(watch.drain().unwrap(), Seen::Change, "removed");
        fs::write(at(".10-x.conflist.1.evergreen-tmp"), "x").unwrap();
        assert_eq!(watch.drain().unwrap(), Seen::Nothing, "our temporary file");
    }
}
