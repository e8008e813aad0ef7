//! What the crowd was answered, counted by all callers at once.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::answer::Answer;

/// Shared by all callers.
#[derive(Default)]
pub(crate) struct Tally {
    asking: AtomicUsize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    statuses: BTreeMap<u16, usize>,
    /// Of the 429s.
    retry_after: BTreeMap<u64, usize>,
    failures: BTreeMap<String, usize>,
    /// Milliseconds of answers that were no refusal.
    times: Vec<u32>,
    /// How many were asking when the first 429 came.
    asking_at_first_429: Option<usize>,
}

/// One who has asked and is not answered yet.
pub(crate) struct Asking<'a>(&'a AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Tally {
    /// Counts while what it returns lives.
    pub(crate) fn one_more_asks(&self) -> Asking<'_> {
        self.asking.fetch_add(1, Relaxed);
        Asking(&self.asking)
    }

    pub(crate) fn add(&self, answer: &Answer, took: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.statuses.entry(answer.status).or_default() += 1;
        if answer.status == 429 {
            *counts.retry_after.entry(answer.retry_after).or_default() += 1;
            let asking = self.asking.load(Relaxed) + 1;
            counts.asking_at_first_429.get_or_insert(asking);
        } else {
            counts.times.push(took.as_millis().try_into().unwrap_or(u32::MAX));
        }
    }

    pub(crate) fn add_failure(&self, error: &io::Error) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.failures.entry(error.to_string()).or_default() += 1;
    }

    pub(crate) fn report(&self, callers: usize, seconds: f64) -> Value {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.times.sort_unstable();
        let at = |share: usize| {
            counts
                .times
                .get((counts.times.len().saturating_sub(1)) * share / 100)
        };
        let served = counts.statuses.get(&200).copied().unwrap_or_default();
        json!({
            "callers": callers,
            "seconds": (seconds * 10.0).round() / 10.0,
            "statuses": counts.statuses,
            "served_per_second": (served as f64 / seconds).round(),
            "retry_after": counts.retry_after,
            "asking_at_first_429": counts.asking_at_first_429,
            "median_ms": at(50),
            "p99_ms": at(99),
            "slowest_ms": at(100),
            "failures": counts.failures,
        })
    }
}
