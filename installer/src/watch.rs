//! What wakes the installer: a change in a directory, a signal, the bell of another thread, the clock. An event never says
//! what to do: it only says that it is time to look, so that one that was missed costs a turn of the clock and nothing else.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::{self, Read},
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

/// A turn at least this often, whatever the events say.
const USUAL: Duration = Duration::from_secs(30);
/// The same while a directory cannot be watched, since it may not exist yet.
const UNWATCHED: Duration = Duration::from_secs(2);
/// A burst of events is over when a network has been written, when none has come for this long ...
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

/// What some events say together; the greater one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// None that counts.
    Nothing,
    /// Something has changed, and more may be about to.
    Change,
    /// A network has been written to its end: as long as our entry is not in it, pods start without their rules.
    Network,
}

impl Seen {
    /// What one event says. A full queue, which has no name, is a change. A temporary file of ours is none: a write that
    /// fails would otherwise wake us to fail again at once.
    fn by(event: &Change<&OsStr>) -> Self {
        let written = event
            .mask
            .intersects(EventMask::CLOSE_WRITE | EventMask::MOVED_TO);
        match event.name {
            Some(name) if atomic::is_temporary(name) => Self::Nothing,
            Some(name) if written && conflist::is_loaded(Path::new(name)) => Self::Network,
            _ => Self::Change,
        }
    }
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
            let now = Instant::now();
            match self.drained()? {
                Seen::Network => return Ok(Event::Look),
                Seen::Change => {
                    let end = *burst_ends.get_or_insert(now + BURST);
                    until = end.min(now + QUIET);
                }
                Seen::Nothing if now >= until => return Ok(Event::Look),
                Seen::Nothing => {}
            }
        }
    }

    /// Reads all events there are.
    fn drained(&mut self) -> Result<Seen> {
        let mut buffer = [0; 4096];
        let mut seen = Seen::Nothing;
        while matches!(self.bell.read(&mut buffer), Ok(n) if n > 0) {
            seen = Seen::Change;
        }
        loop {
            match self.inotify.read_events(&mut buffer) {
                Ok(events) => seen = events.map(|e| Seen::by(&e)).fold(seen, Seen::max),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(seen),
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn only_a_network_that_has_been_written_to_its_end_is_looked_at_at_once() {
        let dir = Scratch::new();
        let (mut watch, _button) = Watch::new(Signals::take_over().unwrap()).unwrap();
        watch.follow([dir.path()]);
        let at = |name: &str| dir.path().join(name);
        assert_eq!(watch.drained().unwrap(), Seen::Nothing);
        let half = File::create(at("10-x.conflist")).unwrap();
        assert_eq!(watch.drained().unwrap(), Seen::Change, "created");
        drop(half);
        assert_eq!(watch.drained().unwrap(), Seen::Network, "written in place");
        fs::write(at("10-x.conflist.tmp"), "x").unwrap();
        assert_eq!(watch.drained().unwrap(), Seen::Change, "no network by its name");
        fs::rename(at("10-x.conflist.tmp"), at("10-x.conflist")).unwrap();
        assert_eq!(watch.drained().unwrap(), Seen::Network, "moved into place");
        fs::remove_file(at("10-x.conflist")).unwrap();
        assert_eq!(watch.drained().unwrap(), Seen::Change, "removed");
        fs::write(at(".10-x.conflist.1.evergreen-tmp"), "x").unwrap();
        assert_eq!(
            watch.drained().unwrap(),
            Seen::Nothing,
            "a temporary file of ours"
        );
    }
}
