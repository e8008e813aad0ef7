//! What a person reads, and what is kept.

use std::fmt;

use serde_json::json;

use crate::{
    case::Case,
    measure::{Series, Taken},
};

/// The most memory one call may have resident, in KiB.
const PEAK_LIMIT: f64 = 5.0 * 1024.0;
/// The most bytes the plugin's binary may have.
const SIZE_LIMIT: u64 = 4_000_000;

/// Every case with its figures.
pub struct Table {
    rows: Vec<Row>,
    size: u64,
}

struct Row {
    name: &'static str,
    wall: [f64; 3],
    cpu: f64,
    peak: f64,
    /// Our median divided by the floor's, the floor's name, and the promise.
    ratio: Option<(f64, &'static str, f64)>,
}

impl Table {
    /// Medians, spread and ratios of these series, one for each case.
    pub fn new(cases: &[Case], measured: &[Series], size: u64) -> Self {
        let wall = |name: &str| {
            measured
                .iter()
                .find(|series| series.name == name)
                .map_or(f64::NAN, |series| series.median(|t| t.wall))
        };
        let row = |(case, series): (&Case, &Series)| Row {
            name: case.name,
            wall: [0.1, 0.5, 0.9].map(|share| series.quantile(share, |t: &Taken| t.wall)),
            cpu: series.median(|t| t.cpu),
            peak: series.median(|t| t.peak),
            ratio: case
                .against
                .map(|(floor, promise)| (wall(case.name) / wall(floor), floor, promise)),
        };
        Self {
            rows: cases.iter().zip(measured).map(row).collect(),
            size,
        }
    }

    /// True when no ratio and no bound is missed.
    pub fn keeps_its_promises(&self) -> bool {
        self.size < SIZE_LIMIT && self.rows.iter().all(Row::keeps_its_promises)
    }

    /// One JSON document, times in microseconds, memory in KiB.
    pub fn to_json(&self) -> String {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                json!({"case": row.name, "wall_us": {"p10": row.wall[0], "median": row.wall[1], "p90": row.wall[2]},
                       "cpu_us": row.cpu, "peak_kib": row.peak,
                       "against": row.ratio.map(|(ratio, floor, promise)| json!({"floor": floor, "ratio": ratio, "promise": promise}))})
            })
            .collect();
        json!({"binary_bytes": self.size, "cases": rows}).to_string() + "\n"
    }
}

impl Row {
    fn keeps_its_promises(&self) -> bool {
        self.ratio.is_none_or(|(ratio, _, promise)| ratio <= promise) && self.peak < PEAK_LIMIT
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<28} {:>8} {:>17} {:>8} {:>9}   ratio to its floor",
            "case", "wall ms", "[p10 - p90]", "cpu ms", "peak MiB"
        )?;
        for row in &self.rows {
            let [low, median, high] = row.wall.map(|us| us / 1000.0);
            let spread = format!("[{low:.2} - {high:.2}]");
            write!(
                f,
                "{:<28} {median:>8.2} {spread:>17} {:>8.2} {:>9.2}",
                row.name,
                row.cpu / 1000.0,
                row.peak / 1024.0
            )?;
            if let Some((ratio, floor, promise)) = row.ratio {
                let verdict = if row.keeps_its_promises() { "" } else { "  MISSED" };
                write!(f, "   {ratio:.2} (promised {promise}) of {floor}{verdict}")?;
            }
            writeln!(f)?;
        }
        let verdict = if self.size < SIZE_LIMIT { "" } else { "  MISSED" };
        writeln!(
            f,
            "binary {} bytes (promised under {SIZE_LIMIT}){verdict}",
            self.size
        )
    }
}
