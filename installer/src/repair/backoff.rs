//! A pause per controller between two deletions of its pods, so that a deletion that does not help is not repeated forever.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The pause after the first deletion. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The last deletion of each controller's pods, and the pause after it.
#[derive(Debug, Default)]
pub struct Backoff(BTreeMap<String, (Instant, Duration)>);

impl Backoff {
    /// Returns true if a pod of this controller may be deleted now, and starts the pause for the others.
    pub fn try_start(&mut self, controller: &str) -> bool {
        self.0.retain(|_, (since, pause)| since.elapsed() < *pause * 4);
        match self.0.get_mut(controller) {
            Some((since, pause)) if since.elapsed() < *pause => return false,
            Some((since, pause)) => (*since, *pause) = (Instant::now(), (*pause * 2).min(LONGEST_PAUSE)),
            None => {
                self.0
                    .insert(controller.to_owned(), (Instant::now(), FIRST_PAUSE));
            }
        }
        true
    }

    /// Undoes the growth of the pause after a deletion that was refused.
    pub fn undo(&mut self, controller: &str) {
        if let Some((_, pause)) = self.0.get_mut(controller) {
            *pause = (*pause / 2).max(FIRST_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_pod_of_a_controller_waits() {
        let mut backoff = Backoff::default();
        assert!(backoff.try_start("a") && !backoff.try_start("a"));
        assert!(backoff.try_start("b"));
    }
}
