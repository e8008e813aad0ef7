//! Decides what to do after a failed request: read the credentials again, retry after a pause, or give up. Pure: no clock,
//! no socket, no file.

use std::time::Duration;

use crate::error::{Class, Error};

/// The first pause; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause of our own.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The longest `Retry-After` that is honoured in full. The server may ask for an hour while the pod waits.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long a 403 is retried. An API server that has just started answers 403 until its RBAC cache is filled: 0.2 to 0.5 s
/// on each of five restarts of 1.34.
const RETRY_FORBIDDEN: Duration = Duration::from_secs(1);
/// Reserved for the attempt that follows a pause.
const ATTEMPT_RESERVE: Duration = Duration::from_millis(100);

/// How often an unreachable server is retried when there is a fallback: for a third of a second. A starting server takes
/// longer, one behind a load balancer is there at once, and every pod of a node that has lost the server waits this long.
const RETRIES_WITH_FALLBACK: u32 = 3;

/// The history of one request.
#[derive(Debug, Default)]
pub(super) struct Retry {
    pauses: u32,
    read_again: bool,
    forbidden_at: Option<Duration>,
    forbidden_is_final: bool,
    has_fallback: bool,
    /// Retried once sooner than `Retry-After`, which is allowed once.
    too_soon: bool,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Read the files again, and retry at once if they have changed.
    ReadAgain,
    /// Retry after a pause.
    Pause(Duration),
    /// Report the failure.
    GiveUp,
}

impl Retry {
    /// `authorized`: the server has already allowed us something, so its RBAC cache is filled and a 403 is final.
    /// `has_fallback`: the caller can do without a response.
    pub(super) fn new(authorized: bool, has_fallback: bool) -> Self {
        Self {
            forbidden_is_final: authorized,
            has_fallback,
            ..Self::default()
        }
    }

    /// Returns the next step. `passed` and `left` are parts of the call's time; `chance` is a number from 0 to 1.
    pub(super) fn next(&mut self, error: &Error, passed: Duration, left: Duration, chance: f64) -> Next {
        match error.class {
            Class::Unauthorized | Class::Trust if !self.read_again => {
                self.read_again = true;
                Next::ReadAgain
            }
            Class::Unreachable if self.has_fallback && self.pauses >= RETRIES_WITH_FALLBACK => Next::GiveUp,
            Class::Unreachable | Class::Timeout | Class::TooManyRequests | Class::Server => {
                self.pause(error.retry_after.unwrap_or_default(), left, chance)
            }
            Class::Forbidden if !self.forbidden_is_final => {
                let since = *self.forbidden_at.get_or_insert(passed);
                if passed.saturating_sub(since) < RETRY_FORBIDDEN {
                    self.pause(Duration::ZERO, left, chance)
                } else {
                    Next::GiveUp
                }
            }
            _ => Next::GiveUp,
        }
    }

    /// Pauses for our own back-off or, if the server asks for a pause, for that long plus up to half: it tells all callers
    /// the same time, and they must not all come back at once.
    fn pause(&mut self, retry_after: Duration, left: Duration, chance: f64) -> Next {
        let Some(longest) = left.checked_sub(ATTEMPT_RESERVE) else {
            return Next::GiveUp;
        };
        let grown = FIRST_PAUSE
            .saturating_mul(1 << self.pauses.min(8))
            .min(LONGEST_PAUSE);
        self.pauses += 1;
        let (least, most) = if retry_after.is_zero() {
            (grown / 2, grown)
        } else if retry_after.min(LONGEST_RETRY_AFTER) <= longest {
            let asked = retry_after.min(LONGEST_RETRY_AFTER).max(grown / 2);
            (asked, asked + asked / 2)
        } else if self.has_fallback || self.too_soon {
            // Do not retry a busy server sooner than it wants.
            return Next::GiveUp;
        } else {
            // One last attempt: late, and with time left to wait in the server's queue.
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
    fn pauses_double_up_to_a_second_and_the_deadline() {
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
    fn unreachable_server_is_given_up_early_with_fallback() {
        let mut retry = Retry::new(false, true);
        let mut next = |class| retry.next(&failed(class), Duration::ZERO, 1250 * MS, 1.0);
        for pause in [50, 100, 200] {
            assert_eq!(next(Class::Unreachable), Next::Pause(pause * MS));
        }
        assert_eq!(next(Class::Unreachable), Next::GiveUp);
        // A server that responds is worth waiting for.
        assert_eq!(next(Class::Server), Next::Pause(400 * MS));
    }

    /// The pause in milliseconds after a 429 that asks for so many seconds, at both ends of chance; none: given up.
    fn pauses_after_429(retry: impl Fn() -> Retry, asked: u64, left: u32) -> Option<[u128; 2]> {
        let error = failed(Class::TooManyRequests).after(Some(Duration::from_secs(asked)));
        let pause = |chance| match retry().next(&error, Duration::ZERO, left * MS, chance) {
            Next::Pause(pause) => Some(pause.as_millis()),
            _ => None,
        };
        Some([pause(0.0)?, pause(1.0)?])
    }

    #[test]
    fn retry_after_is_honoured_up_to_five_seconds() {
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
    fn too_long_retry_after_gets_one_late_attempt() {
        let mut retry = Retry::default();
        let error = failed(Class::TooManyRequests).after(Some(Duration::from_secs(32)));
        let mut next = |left| retry.next(&error, Duration::ZERO, left * MS, 0.0);
        assert_eq!(next(2100), Next::Pause(1000 * MS));
        assert_eq!(next(1000), Next::GiveUp);
    }

    #[test]
    fn retry_after_is_never_cut_short_with_fallback() {
        let with_fallback = || Retry::new(false, true);
        assert_eq!(pauses_after_429(with_fallback, 2, 1250), None);
        assert_eq!(pauses_after_429(with_fallback, 1, 1250), Some([1000, 1150]));
        assert_eq!(pauses_after_429(with_fallback, 0, 1250), Some([25, 50]));
    }

    #[test]
    fn rejected_credential_is_reread_once() {
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
    fn forbidden_is_retried_for_a_second() {
        let mut retry = Retry::default();
        let error = failed(Class::Forbidden);
        for (passed, again) in [(5000, true), (5050, true), (5999, true), (6000, false)] {
            let next = retry.next(&error, passed * MS, 4000 * MS, 1.0);
            assert_eq!(matches!(next, Next::Pause(_)), again, "at {passed} ms");
        }
    }

    #[test]
    fn forbidden_is_final_after_a_success() {
        let mut retry = Retry::new(true, false);
        let next = retry.next(&failed(Class::Forbidden), Duration::ZERO, 4000 * MS, 1.0);
        assert_eq!(next, Next::GiveUp);
    }

    #[test]
    fn permanent_failures_are_not_retried() {
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
