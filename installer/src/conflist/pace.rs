//! How often one file may be written again when somebody else keeps undoing it. Pure.
//!
//! A neighbour that rewrites its conflist now and then is followed at once, each time. One that does so as soon as we have
//! written may be an operator or an agent at its start, and is followed a few times more; if it goes on, it is a fight
//! that nobody can win: over ten seconds it is held to less than one rewrite a second, and yet our entry is back within a
//! second of the neighbour's last word, in the first seconds of a fight as at the end of ten.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// What is counted: a little over ten seconds, so that who counts over ten never finds one more.
const WINDOW: Duration = Duration::from_millis(10_200);
/// Undone sooner than this, a rewrite was undone because it was written.
const SOON: Duration = Duration::from_millis(950);
/// So many of those in a window are followed at once ...
const AT_ONCE: usize = 3;
/// ... then each waits this long for the one before ...
const SPACING: Duration = Duration::from_millis(900);
/// ... and a window never holds more than this many.
const MOST: usize = 9;
/// More than these and somebody must be undoing what we write.
const PEACEFUL: usize = 5;

/// The rewrites of one file.
#[derive(Debug, Default)]
pub struct Pace {
    /// When it was last written.
    last: Option<Instant>,
    /// When that was first seen to be undone.
    undone: Option<Instant>,
    /// Those of the last window that answered a rewrite undone soon, the first one included.
    written: VecDeque<Instant>,
}

impl Pace {
    /// How long to wait before the next rewrite; zero when it may be now. Asked only when one is needed.
    pub fn wait(&mut self, now: Instant) -> Duration {
        let undone = *self.undone.get_or_insert(now);
        while self
            .written
            .front()
            .is_some_and(|t| now.duration_since(*t) >= WINDOW)
        {
            self.written.pop_front();
        }
        let Some(last) = self.last.filter(|last| undone.duration_since(*last) < SOON) else {
            return Duration::ZERO;
        };
        if self.written.len() < AT_ONCE {
            return Duration::ZERO;
        }
        let full = self
            .written
            .len()
            .checked_sub(MOST)
            .and_then(|i| self.written.get(i));
        let spaced = last + SPACING;
        let allowed = full.map_or(spaced, |oldest| spaced.max(*oldest + WINDOW));
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
            .is_some_and(|(last, undone)| undone.duration_since(last) < SOON);
        if soon || self.written.is_empty() {
            self.written.push_back(now);
        }
        self.last = Some(now);
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
        assert_eq!(fight(25), [0, 5, 10]);
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
    fn a_fight_of_a_few_seconds_or_of_ten_is_over_within_a_second_of_its_end() {
        let writes = fight(60_000);
        for end in (0..5000).chain(10_000..14_000) {
            let next = writes.iter().find(|t| **t >= end).unwrap();
            assert!(next - end < 1000, "{end} {next} {writes:?}");
        }
    }

    #[test]
    fn a_neighbour_that_rewrites_once_a_second_is_followed_at_once_for_ever() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        for i in 0..60 {
            let now = start + Duration::from_millis(1000 * i);
            assert_eq!(pace.wait(now), Duration::ZERO, "rewrite {i}");
            pace.wrote(now);
        }
        assert!(!pace.is_fight());
    }

    #[test]
    fn a_fight_is_forgotten_after_a_window() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        for _ in 0..MOST {
            pace.wait(start);
            pace.wrote(start);
        }
        assert!(pace.is_fight());
        assert!(pace.wait(start) > Duration::from_secs(6));
        assert_eq!(pace.wait(start + WINDOW), Duration::ZERO);
    }
}
