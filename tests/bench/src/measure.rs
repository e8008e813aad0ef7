//! The cost of one run of a program, and statistics over many.

use std::{ffi::OsStr, path::Path};

use anyhow::{Context, Result, ensure};
use evergreen_test_support::run::{CniCall, CniReply};
use serde_json::{Value, json};

use crate::{case, stage::Stage};

/// The cost of one run, or of several concurrent ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    /// Wall time in microseconds.
    pub wall: f64,
    /// User and system time in microseconds.
    pub cpu: f64,
    /// Peak resident memory in KiB.
    pub peak: f64,
    /// The number of API requests.
    pub requests: usize,
    /// Bytes of TCP payload to the API server.
    pub sent: u64,
    /// Bytes of TCP payload from it.
    pub received: u64,
}

/// The cost of many runs, by round; none for a round without a run.
#[derive(Default)]
pub struct Series {
    rounds: Vec<Option<Taken>>,
}

/// Measures a call with the minimal baseline program. The call must end with `exit_code`.
pub fn time(call: &CniCall, clock: &[&OsStr], exit_code: i32) -> Result<Taken> {
    let words = [clock, &["time".as_ref()]].concat();
    let reply = call.run_under(&words)?;
    taken(&reply, exit_code).with_context(|| call.to_string())
}

/// Measures concurrent calls of this program with the minimal baseline program. Each must end with 0.
pub fn time_at_once(calls: &[CniCall], program: &Path, stage: &Stage) -> Result<Taken> {
    case::write(calls, stage)?;
    let clock = stage.clock();
    let words = [&clock[1..], &["time-at-once".as_ref()]].concat();
    let mut call = CniCall::bare(clock.first().context("a clock has words")?);
    for word in words {
        call = call.argument(word);
    }
    let call = call
        .argument(program)
        .argument(stage.folder())
        .argument(calls.len().to_string());
    let reply = call.run()?;
    taken(&reply, 0).with_context(|| call.to_string())
}

fn taken(reply: &CniReply, exit_code: i32) -> Result<Taken> {
    let figures: Vec<i64> = reply
        .stdout
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [wall_ns, cpu_us, peak_kib, ended] = figures[..] else {
        anyhow::bail!("no figures: {reply:?}");
    };
    ensure!(
        ended == i64::from(exit_code),
        "exit code {ended}, expected {exit_code}: {}",
        reply.stderr
    );
    let float = |n: i64| n as f64;
    Ok(Taken {
        wall: float(wall_ns) / 1000.0,
        cpu: float(cpu_us),
        peak: float(peak_kib),
        ..Taken::default()
    })
}

impl Series {
    /// Adds a round.
    pub fn add(&mut self, taken: Option<Taken>) {
        self.rounds.push(taken);
    }

    /// Returns a quantile of the runs; 0.5 is the median.
    pub fn quantile(&self, share: f64, of: fn(&Taken) -> f64) -> f64 {
        quantile(self.rounds.iter().flatten().map(of), share)
    }

    /// Returns the median.
    pub fn median(&self, of: fn(&Taken) -> f64) -> f64 {
        self.quantile(0.5, of)
    }

    /// Returns the median of the ratios to another series, round by round, because a slow minute slows both.
    pub fn ratio(&self, to: &Self, of: fn(&Taken) -> f64) -> f64 {
        let pairs = self.rounds.iter().zip(&to.rounds);
        quantile(
            pairs.filter_map(|(plugin, theirs)| Some(of(plugin.as_ref()?) / of(theirs.as_ref()?))),
            0.5,
        )
    }

    /// Returns the ratio of the fastest tenths, whose runs were least disturbed. On a busy machine a median measures the
    /// load; on a quiet one both ratios agree.
    pub fn undisturbed_ratio(&self, to: &Self, of: fn(&Taken) -> f64) -> f64 {
        self.quantile(0.1, of) / to.quantile(0.1, of)
    }

    /// Returns every run.
    pub fn to_json(&self) -> Value {
        let all = |of: fn(&Taken) -> f64| -> Value { self.rounds.iter().flatten().map(of).collect() };
        json!({"wall_us": all(|t| t.wall), "cpu_us": all(|t| t.cpu), "peak_kib": all(|t| t.peak)})
    }
}

/// Returns a quantile of the values.
pub fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values
        .get((last as f64 * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}
