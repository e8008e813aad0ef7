//! One deadline for the whole call: everything that waits asks how much time is left.

use std::time::{Duration, Instant};

/// The moment by which a piece of work must end.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// A deadline this far from now.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Returns the time that is left; zero after the deadline.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Returns true when no time is left.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// An earlier deadline, after the `parts`th part of the time that is left.
    #[must_use]
    pub fn share(self, parts: u32) -> Self {
        Self::after(self.left() / parts)
    }
}
