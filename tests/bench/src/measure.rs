//! One run of a program, and many of them.

use std::{ffi::OsStr, path::Path};

use anyhow::{Context, Result, ensure};
use evergreen_test_support::run::CniCall;

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// From its start to its end, in microseconds.
    pub wall: f64,
    /// User and system time, in microseconds.
    pub cpu: f64,
    /// Peak resident memory, in KiB.
    pub peak: f64,
}

/// What many runs took.
pub struct Series {
    /// The case's name.
    pub name: &'static str,
    runs: Vec<Taken>,
}

/// Runs a call under the floor program's clock. `exit_code` is the one it must end with.
pub fn time(call: &CniCall, floor: &Path, exit_code: i32) -> Result<Taken> {
    let reply = call.run_under(&[floor.as_os_str(), OsStr::new("time")])?;
    let figures: Vec<i64> = reply
        .stdout
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [wall_ns, cpu_us, peak_kib, ended] = figures[..] else {
        anyhow::bail!("no figures from {}: {reply:?}", floor.display());
    };
    ensure!(
        ended == i64::from(exit_code),
        "ended with {ended}, not {exit_code}: {call}: {}",
        reply.stderr
    );
    let float = |n: i64| n as f64;
    Ok(Taken {
        wall: float(wall_ns) / 1000.0,
        cpu: float(cpu_us),
        peak: float(peak_kib),
    })
}

impl Series {
    /// No runs yet.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            runs: Vec::new(),
        }
    }

    /// One more.
    pub fn add(&mut self, taken: Taken) {
        self.runs.push(taken);
    }

    /// The value below which this share of the runs lies; 0.5 is the median.
    pub fn quantile(&self, share: f64, of: impl Fn(&Taken) -> f64) -> f64 {
        let mut values: Vec<f64> = self.runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().saturating_sub(1);
        values
            .get((last as f64 * share).round() as usize)
            .copied()
            .unwrap_or(f64::NAN)
    }

    /// The median.
    pub fn median(&self, of: impl Fn(&Taken) -> f64) -> f64 {
        self.quantile(0.5, of)
    }
}

/// The size of a file in bytes.
pub fn size(path: &Path) -> Result<u64> {
    Ok(path
        .metadata()
        .with_context(|| format!("looking at {}", path.display()))?
        .len())
}
