//! How often one file may be written again when somebody else keeps undoing it. Pure.
//!
//! A neighbour that rewrites its conflist now and then is followed at once, each time. One that does so as soon as we have
//! written may be an operator or an agent at its start, and is followed within a second a few times more; if it goes on, it
//! is a fight that nobody can win, and over any ten seconds we write less than once a second. One that writes at a pace of
//! its own costs few of these, and its last word is followed within a second whenever it comes. One that answers each of our
//! writes costs one each time: nine are followed within a second, and then there is a pause until ten seconds are over, for
//! always within a second and less than once a second cannot both be.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// What is counted: a little over ten seconds, so that who counts over ten never finds one more.
const WINDOW: Duration = Duration::from_millis(10_200);
/// A window never holds more rewrites of a fight than this many.
const MOST: usize = 9;
/// Undone sooner than this, a rewrite was undone because it was written.
const SOON: Duration = Duration::from_millis(950);
/// So many of those in a window are followed at once ...
const AT_ONCE: usize = 2;
/// ... then each waits this long for the one before.
const SPACING: Duration = SOON;
/// More than these and somebody must be undoing what we write.
const PEACEFUL: usize = 5;
/// One that writes again and again by itself is answered when it has been quiet for this long ...
const QUIET: Duration = Duration::from_millis(600);
/// ... or when we have not written for this long.
const SELDOM: Duration = Duration::from_secs(2);

/// The rewrites of one file. `F` tells what is there from what somebody has written since.
#[derive(Debug)]
pub struct Pace<F> {
    /// When it was last written.
    last: Option<Instant>,
    /// What somebody has done to it since.
    undone: Option<Undone<F>>,
    /// Those of the last window that answered a rewrite undone soon, the first one included.
    written: VecDeque<Instant>,
}

/// Somebody else's writes since our last one.
#[derive(Debug)]
struct Undone<F> {
    /// When the first was seen.
    first: Instant,
    /// When the last was seen, if there was more than one.
    again: Option<Instant>,
    /// What it left.
    file: F,
}

impl<F: PartialEq + Clone> Pace<F> {
    /// None yet.
    pub fn new() -> Self {
        Self {
            last: None,
            undone: None,
            written: VecDeque::new(),
        }
    }

    /// How long to wait before the next rewrite; zero when it may be now. Asked only when one is needed, of the file as it is
    /// then.
    pub fn wait(&mut self, now: Instant, file: F) -> Duration {
        let undone = self.undone.get_or_insert_with(|| Undone {
            first: now,
            again: None,
            file: file.clone(),
        });
        if undone.file != file {
            (undone.file, undone.again) = (file, Some(now));
        }
        let (first, again) = (undone.first, undone.again);
        while self
            .written
            .front()
            .is_some_and(|t| now.duration_since(*t) >= WINDOW)
        {
            self.written.pop_front();
        }
        let Some(last) = self.last.filter(|last| first.duration_since(*last) < SOON) else {
            return Duration::ZERO;
        };
        if self.written.len() < AT_ONCE {
            return Duration::ZERO;
        }
        let mut allowed = last + SPACING;
        let full = self.written.len().checked_sub(MOST);
        if let Some(oldest) = full.and_then(|i| self.written.get(i)) {
            allowed = allowed.max(*oldest + WINDOW);
        }
        if let Some(again) = again {
            allowed = allowed.max((again + QUIET).min(last + SELDOM));
        }
        allowed.saturating_duration_since(now)
    }

    /// True when it has been undone so often and so soon that it is undone because we write it.
    pub fn is_fight(&self) -> bool {
        self.written.len() > PEACEFUL
    }

    /// Notes a rewrite.
    pub fn wrote(&mut self, now: Instant) {
        let undone = self.undone.take();
        let soon = self
            .last
            .zip(undone)
            .is_some_and(|(last, undone)| undone.first.duration_since(last) < SOON);
        if soon || self.written.is_empty() {
            self.written.push_back(now);
        }
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests;
