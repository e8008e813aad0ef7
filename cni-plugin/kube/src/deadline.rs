//! One end for the whole call: everything that waits asks how long it still may.

use std::time::{Duration, Instant};

/// The moment by which a piece of work must be over.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    ends: Instant,
    in_reserve: bool,
}

impl Deadline {
    /// A deadline this far from now.
    pub fn after(time: Duration) -> Self {
        Self {
            ends: Instant::now() + time,
            in_reserve: false,
        }
    }

    /// What is left; zero when it is over.
    pub fn left(self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// True when nothing is left.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// An earlier end: the `parts`th part of what is left, for work that has a fallback waiting.
    #[must_use]
    pub fn share(self, parts: u32) -> Self {
        Self {
            in_reserve: true,
            ..Self::after(self.left() / parts)
        }
    }

    /// True when a fallback waits: what is known not to come in time need not be waited for.
    pub fn has_fallback(self) -> bool {
        self.in_reserve
    }
}
