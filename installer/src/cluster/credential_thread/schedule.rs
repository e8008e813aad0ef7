//! When something is to be done next.

use std::time::{Duration, Instant};

use evergreen_kube::chance;

/// The pause after a failure, and the longest it grows to.
pub const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// As long as that.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// When something is to be done next, later after each failure.
pub struct Schedule {
    next: Instant,
    pause: Duration,
}

impl Schedule {
    /// Due at once.
    pub fn now() -> Self {
        Self {
            next: Instant::now(),
            pause: FIRST_PAUSE,
        }
    }

    /// True when it is time.
    pub fn is_due(&self) -> bool {
        self.left().is_zero()
    }

    /// How long until then.
    pub fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Sets the time anew.
    pub fn next_in(&mut self, time: Duration) {
        self.next = Instant::now() + time;
    }

    /// Done; due again after this time.
    pub fn succeeded(&mut self, time: Duration) {
        self.pause = FIRST_PAUSE;
        self.next_in(time);
    }

    /// Not done; due again soon, and later each time.
    pub fn failed(&mut self) {
        // Spread, so that the nodes of a cluster do not come back all at once.
        self.next_in(self.pause.mul_f64(0.75 + chance() / 2.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}
