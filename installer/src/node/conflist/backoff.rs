//! An exponential back-off against a process that rewrites a network without our entry. The first rewrite is answered at
//! once, each further one no sooner than 1, 2, 4, 8, 16 and then 30 s after our last write. A file that has stayed as it is
//! for 60 s starts from the beginning.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::host::HostPath;

const MAX_DELAY: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(60);
/// From so many answers on, another process is taken to undo our writes on purpose.
const CONTESTED: u32 = 4;

/// Our writes to each file.
#[derive(Debug, Default)]
pub struct Backoff(BTreeMap<HostPath, Writes>);

#[derive(Debug)]
struct Writes {
    /// How many have followed the first one.
    repeats: u32,
    last: Instant,
}

impl Backoff {
    /// Returns the time until the file may be written; zero when it may be written now.
    pub fn delay(&self, file: &HostPath, now: Instant) -> Duration {
        let Some(writes) = self.recent(file, now) else {
            return Duration::ZERO;
        };
        let delay = match writes.repeats {
            0 => Duration::ZERO,
            n => Duration::from_secs(1 << (n - 1).min(5)).min(MAX_DELAY),
        };
        (writes.last + delay).saturating_duration_since(now)
    }

    /// Notes a write.
    pub fn wrote(&mut self, file: &HostPath, now: Instant) {
        let repeats = self.recent(file, now).map_or(0, |writes| writes.repeats + 1);
        self.0.insert(file.clone(), Writes { repeats, last: now });
    }

    /// True while another process keeps undoing our writes.
    pub fn is_contested(&self, file: &HostPath, now: Instant) -> bool {
        self.recent(file, now)
            .is_some_and(|writes| writes.repeats >= CONTESTED)
    }

    fn recent(&self, file: &HostPath, now: Instant) -> Option<&Writes> {
        let writes = self.0.get(file);
        writes.filter(|writes| now.duration_since(writes.last) < QUIET)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns the seconds at which a file is written that is rewritten `undone_after` each of our writes.
    fn written(undone_after: Duration, count: usize) -> Vec<u64> {
        let (start, mut backoff) = (Instant::now(), Backoff::default());
        let file = HostPath::new(Path::new(""), Path::new("/etc/cni/net.d/10-x.conflist"));
        let (mut now, mut times) = (start, Vec::new());
        for _ in 0..count {
            now += backoff.delay(&file, now);
            backoff.wrote(&file, now);
            times.push((now - start).as_secs());
            now += undone_after;
        }
        times
    }

    #[test]
    fn delays_double_up_to_thirty_seconds() {
        assert_eq!(written(Duration::ZERO, 10), [0, 0, 1, 3, 7, 15, 31, 61, 91, 121]);
    }

    #[test]
    fn rewrite_later_than_its_delay_is_answered_at_once() {
        assert_eq!(
            written(Duration::from_secs(40), 9),
            [0, 40, 80, 120, 160, 200, 240, 280, 320]
        );
    }

    #[test]
    fn quiet_minute_resets_the_delay() {
        let (start, mut backoff) = (Instant::now(), Backoff::default());
        let file = HostPath::new(Path::new(""), Path::new("/etc/cni/net.d/10-x.conflist"));
        for repeats in 0..6 {
            assert_eq!(
                backoff.is_contested(&file, start),
                repeats > CONTESTED,
                "{repeats}"
            );
            backoff.wrote(&file, start);
        }
        assert_eq!(backoff.delay(&file, start), Duration::from_secs(16));
        assert_eq!(backoff.delay(&file, start + QUIET), Duration::ZERO);
        backoff.wrote(&file, start + QUIET);
        assert_eq!(backoff.delay(&file, start + QUIET), Duration::ZERO);
        assert!(!backoff.is_contested(&file, start + QUIET));
    }
}
