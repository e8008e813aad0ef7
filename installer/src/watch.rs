//! What wakes the installer: a change in a directory, a signal, the bell of another thread, the clock. An event never says
//! what to do: it only says that it is time to look, so that one that was missed costs a turn of the clock and nothing else.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    os::{fd::AsFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use inotify::{Inotify, WatchDescriptor, WatchMask};

use crate::{
    atomic,
    sys::{self, Signals},
};

/// A turn at least this often, whatever the events say.
const USUAL: Duration = Duration::from_secs(30);
/// The same while a directory cannot be watched, since it may not exist yet.
const UNWATCHED: Duration = Duration::from_secs(2);
/// A burst of events is over when none has come for this long ...
const QUIET: Duration = Duration::from_millis(5);
/// ... or when it has lasted for this long.
const BURST: Duration = Duration::from_millis(50);

/// Why the wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Something may have changed, or the time is over.
    Look,
    /// A signal asks us to end.
    Leave,
}

/// Directories, clock and signals as one stream.
pub struct Watch {
    inotify: Inotify,
    signals: Signals,
    bell: UnixStream,
    watched: BTreeMap<PathBuf, WatchDescriptor>,
    complete: bool,
}

impl Watch {
    /// Watches nothing yet but the signals. Returns also the bell's button: a byte written to it wakes us.
    pub fn new(signals: Signals) -> Result<(Self, UnixStream)> {
        let (bell, button) = UnixStream::pair().context("make a bell")?;
        for end in [&bell, &button] {
            end.set_nonblocking(true).context("make a bell")?;
        }
        let inotify = Inotify::init().context("start inotify (is fs.inotify.max_user_instances reached?)")?;
        let watch = Self {
            inotify,
            signals,
            bell,
            watched: BTreeMap::new(),
            complete: false,
        };
        Ok((watch, button))
    }

    /// Watches these directories and no others. To be called before each look at them, so that no change falls between, and
    /// so that a directory that was replaced is watched again.
    pub fn follow<'a>(&mut self, directories: impl IntoIterator<Item = &'a Path>) {
        let mut old = std::mem::take(&mut self.watched);
        self.complete = true;
        for directory in directories {
            // The kernel answers with the same number for a directory that is watched already.
            match self.inotify.watches().add(directory, Self::mask()) {
                Ok(watch) => {
                    self.watched.insert(directory.to_path_buf(), watch);
                }
                Err(_) => self.complete = false,
            }
        }
        old.retain(|_, watch| !self.watched.values().any(|w| w == watch));
        for watch in old.into_values() {
            // The kernel has dropped those whose directory is gone.
            let _ = self.inotify.watches().remove(watch);
        }
    }

    /// Waits for something to happen, at most this long.
    pub fn next(&mut self, at_most: Option<Duration>) -> Result<Event> {
        let usual = if self.complete { USUAL } else { UNWATCHED };
        let mut until = Instant::now() + at_most.map_or(usual, |t| t.min(usual));
        let mut burst_ends = None;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let files = [self.signals.as_fd(), self.inotify.as_fd(), self.bell.as_fd()];
            sys::wait_readable(&files, left).context("wait for events")?;
            if self.signals.came() {
                return Ok(Event::Leave);
            }
            if self.drained()? {
                let now = Instant::now();
                let end = *burst_ends.get_or_insert(now + BURST);
                until = end.min(now + QUIET);
            } else if Instant::now() >= until {
                return Ok(Event::Look);
            }
        }
    }

    /// Reads all events there are; true when there was one that counts. A full queue does. A temporary file does not: a
    /// write that fails would otherwise wake us to fail again at once.
    fn drained(&mut self) -> Result<bool> {
        let mut buffer = [0; 4096];
        let mut any = false;
        while matches!(self.bell.read(&mut buffer), Ok(n) if n > 0) {
            any = true;
        }
        loop {
            match self.inotify.read_events(&mut buffer) {
                Ok(events) => {
                    any |= events
                        .filter(|e| !e.name.is_some_and(atomic::is_temporary))
                        .count()
                        > 0;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(any),
                Err(e) => return Err(e).context("read events"),
            }
        }
    }

    /// Everything that changes a file or its mode; not what a look itself does (open, read, close unwritten).
    fn mask() -> WatchMask {
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
}
