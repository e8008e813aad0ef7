//! How often pods of one controller are deleted. Where deleting does not help, it must not go on and on.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How long the pods of one controller are left alone after one was deleted, and the longest that grows to.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Since when, and for how long, the pods of a controller are left alone.
#[derive(Debug, Default)]
pub struct Paused(BTreeMap<String, (Instant, Duration)>);

impl Paused {
    /// True when a pod of this controller may be deleted now; then the others have to wait.
    pub fn may_delete(&mut self, controller: &str) -> bool {
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

    /// It was not deleted after all: the pause before the next attempt does not grow for it.
    pub fn not_done(&mut self, controller: &str) {
        if let Some((_, pause)) = self.0.get_mut(controller) {
            *pause = (*pause / 2).max(FIRST_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pods_of_one_controller_are_not_deleted_again_and_again() {
        let mut paused = Paused::default();
        assert!(paused.may_delete("a") && !paused.may_delete("a"));
        assert!(paused.may_delete("b"));
    }
}
