//! What to do after a failure. Pure: knows no clock, no socket, no file.

use std::time::Duration;

use crate::error::{Class, Error};

/// The first pause; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// No pause of ours is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// No pause the server asks for is taken to be longer. It may ask for an hour, and the pod waits meanwhile.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(5);
/// An API server that has just started answers 403 until it has read its RBAC rules: 0.2 to 0.5 s, seen on each of five
/// restarts of 1.34.
const FORBIDDEN_FOR: Duration = Duration::from_secs(1);
/// Kept of what is left, for the attempt that follows a pause.
const FOR_AN_ATTEMPT: Duration = Duration::from_millis(100);

/// How often an address where nobody listens is asked again when there is a fallback: for a third of a second. A server that
/// starts takes longer, and one that is behind a balancer is there at once; each pod of a node that has lost it waits for this.
const AGAIN_WITH_FALLBACK: u32 = 3;

/// What a request has been through.
#[derive(Debug, Default)]
pub(super) struct Retry {
    pauses: u32,
    read_again: bool,
    forbidden_at: Option<Duration>,
    forbidden_is_final: bool,
    has_fallback: bool,
    /// Asked once sooner than the server wants, which is once and no more.
    too_soon: bool,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Read the files again, and ask again at once if they hold something else.
    ReadAgain,
    /// Ask again after a pause.
    Pause(Duration),
    /// Report the failure.
    GiveUp,
}

impl Retry {
    /// `settled`: the server has already allowed us something, so it has read its RBAC rules, and a 403 is meant.
    /// `has_fallback`: something stands in for an answer that does not come.
    pub(super) fn new(settled: bool, has_fallback: bool) -> Self {
        Self {
            forbidden_is_final: settled,
            has_fallback,
            ..Self::default()
        }
    }

    /// `passed` and `left` are of the call's time; `chance` is a number from 0 to 1.
    pub(super) fn next(&mut self, error: &Error, passed: Duration, left: Duration, chance: f64) -> Next {
        match error.class {
            Class::Unauthorized | Class::Trust if !self.read_again => {
                self.read_again = true;
                Next::ReadAgain
            }
            Class::Unreachable if self.has_fallback && self.pauses >= AGAIN_WITH_FALLBACK => Next::GiveUp,
            Class::Unreachable | Class::Timeout | Class::TooManyRequests | Class::Server => {
                self.pause(error.retry_after.unwrap_or_default(), left, chance)
            }
            Class::Forbidden if !self.forbidden_is_final => {
                let since = *self.forbidden_at.get_or_insert(passed);
                if passed.saturating_sub(since) < FORBIDDEN_FOR {
                    self.pause(Duration::ZERO, left, chance)
                } else {
                    Next::GiveUp
                }
            }
            _ => Next::GiveUp,
        }
    }

    /// A pause of our own making or, where the server asks for one, of that length and up to half as much again: it tells
    /// all callers the same, and they are not to come back all at once.
    fn pause(&mut self, asked: Duration, left: Duration, chance: f64) -> Next {
        let Some(longest) = left.checked_sub(FOR_AN_ATTEMPT) else {
            return Next::GiveUp;
        };
        let grown = FIRST_PAUSE
            .saturating_mul(1 << self.pauses.min(8))
            .min(LONGEST_PAUSE);
        self.pauses += 1;
        let (least, most) = if asked.is_zero() {
            (grown / 2, grown)
        } else if asked.min(LONGEST_RETRY_AFTER) <= longest {
            let asked = asked.min(LONGEST_RETRY_AFTER).max(grown / 2);
            (asked, asked + asked / 2)
        } else if self.has_fallback || self.too_soon {
            // A busy server is left alone rather than asked sooner than it wants.
            return Next::GiveUp;
        } else {
            // The last chance of the call: late, and with time left to wait in the server's queue.
            self.too_soon = true;
            (longest / 2, longest)
        };
        let (least, most) = (least.min(longest), most.min(longest));
        Next::Pause(least + (most - least).mul_f64(chance.clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn failed(class: Class) -> Error {
        Error::new(class, "x")
    }

    #[test]
    fn pauses_grow_to_a_second_and_never_pass_the_deadline() {
        let mut retry = Retry::default();
        let error = failed(Class::Unreachable);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            match retry.next(&error, Duration::ZERO, 10_000 * MS, 1.0) {
                Next::Pause(pause) => pauses.push(pause.as_millis()),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000, 1000]);
        assert_eq!(
            retry.next(&error, Duration::ZERO, 300 * MS, 1.0),
            Next::Pause(200 * MS)
        );
        assert_eq!(retry.next(&error, Duration::ZERO, 99 * MS, 1.0), Next::GiveUp);
        assert_eq!(
            Retry::default().next(&error, Duration::ZERO, 10_000 * MS, 0.0),
            Next::Pause(25 * MS)
        );
    }

    #[test]
    fn with_a_fallback_an_address_where_nobody_listens_is_soon_given_up() {
        let mut retry = Retry::new(false, true);
        let mut next = |class| retry.next(&failed(class), Duration::ZERO, 1250 * MS, 1.0);
        for pause in [50, 100, 200] {
            assert_eq!(next(Class::Unreachable), Next::Pause(pause * MS));
        }
        assert_eq!(next(Class::Unreachable), Next::GiveUp);
        // Somebody is there, and busy.
        assert_eq!(next(Class::Server), Next::Pause(400 * MS));
    }

    /// Milliseconds of the pause after a 429 that asks for so many seconds, at both ends of chance; none: given up.
    fn pauses_after_429(retry: impl Fn() -> Retry, asked: u64, left: u32) -> Option<[u128; 2]> {
        let error = failed(Class::TooManyRequests).after(Some(Duration::from_secs(asked)));
        let pause = |chance| match retry().next(&error, Duration::ZERO, left * MS, chance) {
            Next::Pause(pause) => Some(pause.as_millis()),
            _ => None,
        };
        Some([pause(0.0)?, pause(1.0)?])
    }

    #[test]
    fn what_the_server_asks_for_is_obeyed_up_to_five_seconds_and_not_by_all_in_step() {
        for (asked, left, pauses) in [
            (0, 10_000, [25, 50]),
            (2, 10_000, [2000, 3000]),
            (4, 5000, [4000, 4900]),
            (32, 10_000, [5000, 7500]),
        ] {
            let seen = pauses_after_429(Retry::default, asked, left);
            assert_eq!(seen, Some(pauses), "asked {asked} s of {left} ms");
        }
    }

    #[test]
    fn a_server_that_wants_more_time_than_there_is_gets_one_late_request_more() {
        let mut retry = Retry::default();
        let error = failed(Class::TooManyRequests).after(Some(Duration::from_secs(32)));
        let mut next = |left| retry.next(&error, Duration::ZERO, left * MS, 0.0);
        assert_eq!(next(2100), Next::Pause(1000 * MS));
        assert_eq!(next(1000), Next::GiveUp);
    }

    #[test]
    fn with_a_fallback_a_server_is_not_asked_sooner_than_it_wants() {
        let with_fallback = || Retry::new(false, true);
        assert_eq!(pauses_after_429(with_fallback, 2, 1250), None);
        assert_eq!(pauses_after_429(with_fallback, 1, 1250), Some([1000, 1150]));
        assert_eq!(pauses_after_429(with_fallback, 0, 1250), Some([25, 50]));
    }

    #[test]
    fn files_are_read_again_once() {
        for class in [Class::Unauthorized, Class::Trust] {
            let mut retry = Retry::default();
            assert_eq!(
                retry.next(&failed(class), Duration::ZERO, 1000 * MS, 1.0),
                Next::ReadAgain
            );
            assert_eq!(
                retry.next(&failed(class), Duration::ZERO, 1000 * MS, 1.0),
                Next::GiveUp
            );
        }
    }

    #[test]
    fn a_403_is_asked_again_for_a_second() {
        let mut retry = Retry::default();
        let error = failed(Class::Forbidden);
        for (passed, again) in [(5000, true), (5050, true), (5999, true), (6000, false)] {
            let next = retry.next(&error, passed * MS, 4000 * MS, 1.0);
            assert_eq!(matches!(next, Next::Pause(_)), again, "at {passed} ms");
        }
    }

    #[test]
    fn a_403_of_a_server_that_has_allowed_something_is_meant() {
        let mut retry = Retry::new(true, false);
        let next = retry.next(&failed(Class::Forbidden), Duration::ZERO, 4000 * MS, 1.0);
        assert_eq!(next, Next::GiveUp);
    }

    #[test]
    fn what_time_does_not_change_is_not_asked_again() {
        for class in [
            Class::Kubeconfig,
            Class::Credential,
            Class::Anonymous,
            Class::NotFound,
            Class::WrongUid,
            Class::Conflict,
            Class::NotKubernetes,
            Class::BadRequest,
        ] {
            let next = Retry::default().next(&failed(class), Duration::ZERO, 9000 * MS, 1.0);
            assert_eq!(next, Next::GiveUp, "{class:?}");
        }
    }
}
