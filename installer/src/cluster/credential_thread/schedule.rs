//! The time at which the credential thread does something next.

use std::time::{Duration, Instant};

use evergreen_kube::chance;

/// The pause after a first failure; each further failure doubles it.
pub const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// When something is due, with exponential back-off.
pub struct Schedule {
    next: Instant,
    pause: Duration,
}

impl Schedule {
    /// A schedule that is due at once.
    pub fn now() -> Self {
        Self {
            next: Instant::now(),
            pause: FIRST_PAUSE,
        }
    }

    /// Returns true when the time has come.
    pub fn is_due(&self) -> bool {
        self.left().is_zero()
    }

    /// Returns the time left.
    pub fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Sets the time, without an effect on the back-off.
    pub fn next_in(&mut self, time: Duration) {
        self.next = Instant::now() + time;
    }

    /// Ends the back-off; due again after this time.
    pub fn succeeded(&mut self, time: Duration) {
        self.pause = FIRST_PAUSE;
        self.next_in(time);
    }

    /// Backs off.
    pub fn failed(&mut self) {
        // Spread, so that the nodes of a cluster do not all return at the same moment.
        self.next_in(self.pause.mul_f64(0.75 + chance() / 2.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}
