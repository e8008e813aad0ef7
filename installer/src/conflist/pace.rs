//! How often one file may be written again when somebody else keeps undoing it. Pure.
//!
//! A neighbour that rewrites its conflist now and then is followed at once, each time. One that does so whenever we have
//! written is a fight that nobody can win: it is held to less than one rewrite a second, and yet our entry is back within a
//! second of the neighbour's last word.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// What is counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Undone sooner than this, a rewrite was undone because it was written.
const SOON: Duration = Duration::from_millis(950);
/// So many of those in a row are followed at once ...
const AT_ONCE: usize = 5;
/// ... then it is a fight, and one long pause takes the heat out of it ...
const PAUSE: Duration = Duration::from_millis(6200);
/// ... after which each rewrite waits this long for the one before ...
const SPACING: Duration = Duration::from_millis(970);
/// ... and a window never holds more than this many.
const MOST: usize = 9;

/// The rewrites of one file.
#[derive(Debug, Default)]
pub struct Pace {
    /// Those of the last window.
    written: VecDeque<Instant>,
    /// How many in a row were undone soon.
    undone_soon: usize,
    /// It is a fight, and the long pause is over.
    paused: bool,
}

impl Pace {
    /// How long to wait before the next rewrite; zero when it may be now.
    pub fn wait(&mut self, now: Instant) -> Duration {
        self.forget(now);
        let Some(last) = self.written.back().copied() else {
            return Duration::ZERO;
        };
        if !self.is_fight(now) {
            return Duration::ZERO;
        }
        let spaced = last + if self.paused { SPACING } else { PAUSE };
        let allowed = match self
            .written
            .len()
            .checked_sub(MOST)
            .and_then(|i| self.written.get(i))
        {
            Some(oldest) => spaced.max(*oldest + WINDOW),
            None => spaced,
        };
        allowed.saturating_duration_since(now)
    }

    /// True when it has been undone so often and so soon that it is undone because we write it.
    pub fn is_fight(&self, now: Instant) -> bool {
        self.undone_soon >= AT_ONCE - 1
            && self
                .written
                .back()
                .is_some_and(|last| now.duration_since(*last) < WINDOW)
    }

    /// Notes a rewrite.
    pub fn wrote(&mut self, now: Instant) {
        self.paused = self.is_fight(now);
        let soon = self
            .written
            .back()
            .is_some_and(|last| now.duration_since(*last) < SOON);
        if soon {
            self.undone_soon += 1;
        } else if !self.paused {
            self.undone_soon = 0;
        }
        self.written.push_back(now);
    }

    /// A window without a rewrite is peace; in a fight, what is older than a window no longer counts.
    fn forget(&mut self, now: Instant) {
        if self
            .written
            .back()
            .is_some_and(|last| now.duration_since(*last) >= WINDOW)
        {
            *self = Self::default();
        }
        while self
            .written
            .front()
            .is_some_and(|t| now.duration_since(*t) >= WINDOW)
        {
            self.written.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times, in milliseconds, at which we write while a neighbour undoes each write 5 ms later.
    fn fight(until: u64) -> Vec<u64> {
        let (start, mut pace) = (Instant::now(), Pace::default());
        let (mut now, mut writes) = (0, Vec::new());
        while now < until {
            let at = start + Duration::from_millis(now);
            match pace.wait(at) {
                Duration::ZERO => {
                    pace.wrote(at);
                    writes.push(now);
                    now += 5;
                }
                wait => now += u64::try_from(wait.as_millis()).unwrap() + 1,
            }
        }
        writes
    }

    #[test]
    fn a_few_rewrites_are_followed_at_once() {
        assert_eq!(fight(25), [0, 5, 10, 15, 20]);
    }

    #[test]
    fn a_fight_stays_under_one_rewrite_a_second() {
        let writes = fight(60_000);
        for window in writes.windows(10) {
            assert!(
                window[9] - window[0] >= 10_000,
                "ten within {} ms: {writes:?}",
                window[9] - window[0]
            );
        }
        assert!(writes.len() > 40, "it is not given up: {writes:?}");
    }

    #[test]
    fn at_the_end_of_ten_seconds_of_fight_the_next_write_is_within_a_second() {
        let writes = fight(12_000);
        let next = writes.iter().find(|t| **t >= 10_000).unwrap();
        let last = writes.iter().rfind(|t| **t < 10_000).unwrap();
        assert!(next - last < 1000, "{writes:?}");
    }

    #[test]
    fn a_neighbour_that_rewrites_once_a_second_is_followed_at_once_for_ever() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        for i in 0..60 {
            let now = start + Duration::from_millis(1000 * i);
            assert_eq!(pace.wait(now), Duration::ZERO, "rewrite {i}");
            pace.wrote(now);
        }
    }

    #[test]
    fn peace_is_forgotten_after_a_window() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        (0..5).for_each(|_| pace.wrote(start));
        assert!(pace.is_fight(start));
        assert!(pace.wait(start) > Duration::from_secs(6));
        assert_eq!(pace.wait(start + WINDOW), Duration::ZERO);
    }
}
