//! Every case with its figures and limits.

mod print;

use serde_json::{Value, json};

use crate::{
    case::Case,
    limit::Limit,
    measure::{Series, Taken},
    trace::Traced,
};

/// Limit of one call's resident memory in KiB.
const PEAK_LIMIT: f64 = 5.0 * 1024.0;
/// Limit of the plugin's binary in bytes.
const SIZE_LIMIT: f64 = 4_000_000.0;
/// Limit of memory, as a share of linkerd-cni's.
const PEAK_SHARE: f64 = 1.0 / 6.0;
/// Limit of the binary, as a share of linkerd-cni's.
const SIZE_SHARE: f64 = 1.0 / 9.0;

/// The measurements of one program in one case.
#[derive(Default)]
pub struct Measured {
    /// All rounds.
    pub series: Series,
    /// One run under strace.
    pub traced: Option<Traced>,
}

/// The measurements of one case.
pub struct Row<'a> {
    /// The case.
    pub case: &'a Case,
    /// The plugin, or a minimal baseline program.
    pub plugin: Measured,
    /// linkerd-cni, if `PEER` is set.
    pub peer: Option<Measured>,
}

/// Every case, and the sizes of the two binaries.
pub struct Table<'a> {
    /// One row per case.
    pub rows: Vec<Row<'a>>,
    size: u64,
    peer_size: Option<u64>,
}

impl<'a> Table<'a> {
    /// Creates a table from its rows.
    pub fn new(rows: Vec<Row<'a>>, size: u64, peer_size: Option<u64>) -> Self {
        Self {
            rows,
            size,
            peer_size,
        }
    }

    /// Returns whether every limit is met.
    pub fn is_within_limits(&self) -> bool {
        self.limits().iter().all(Limit::is_met)
    }

    /// Returns one JSON document with every run; times in microseconds, memory in KiB.
    pub fn to_json(&self) -> String {
        let limits: Vec<_> = self
            .limits()
            .iter()
            .map(|p| json!({"of": p.of, "is": p.is, "at_most": p.at_most, "met": p.is_met()}))
            .collect();
        let rows: Vec<_> = self.rows.iter().map(Row::to_json).collect();
        json!({"binary_bytes": self.size, "peer_binary_bytes": self.peer_size, "cases": rows, "limits": limits})
            .to_string()
            + "\n"
    }

    fn limits(&self) -> Vec<Limit> {
        let mut limits = vec![Limit {
            of: "size of the binary in bytes".to_owned(),
            is: self.size as f64,
            at_most: SIZE_LIMIT,
        }];
        if let Some(peer) = self.peer_size {
            limits.push(Limit {
                of: "size of the binary, share of linkerd-cni's".to_owned(),
                is: self.size as f64 / peer as f64,
                at_most: SIZE_SHARE,
            });
        }
        for row in &self.rows {
            limits.extend(self.against_baseline(row));
            limits.extend(row.own_limits());
            limits.extend(row.against_peer());
        }
        limits
    }

    /// Compares a case's wall time with its baseline's, over the fastest tenth of the runs.
    fn against_baseline(&self, row: &Row<'_>) -> Option<Limit> {
        let (baseline, at_most) = row.case.baseline?;
        let of = self.rows.iter().find(|row| row.case.name == baseline)?;
        Some(Limit {
            of: format!("{}: wall time, times {baseline:?}", row.case.name),
            is: row.plugin.series.undisturbed_ratio(&of.plugin.series, |t| t.wall),
            at_most,
        })
    }
}

impl Row<'_> {
    fn own_limits(&self) -> Vec<Limit> {
        let of = |what: &str| format!("{}: {what}", self.case.name);
        let peak = Limit {
            of: of("peak memory of one process in KiB"),
            is: self.plugin.series.median(|t| t.peak) / self.case.at_once as f64,
            at_most: PEAK_LIMIT,
        };
        let programs = self.plugin.traced.map(|traced| Limit {
            of: of("programs"),
            is: traced.programs as f64,
            at_most: 1.0,
        });
        [peak].into_iter().chain(programs).collect()
    }

    fn against_peer(&self) -> Vec<Limit> {
        let (Some(peer), Some(shares)) = (&self.peer, self.case.peer) else {
            return Vec::new();
        };
        let share_of = |what: &str, of: fn(&Taken) -> f64, at_most| Limit {
            of: format!("{}: {what}, share of linkerd-cni's", self.case.name),
            is: self.plugin.series.ratio(&peer.series, of),
            at_most,
        };
        let wall = shares.wall.map(|share| share_of("wall time", |t| t.wall, share));
        [
            share_of("CPU time", |t| t.cpu, shares.cpu),
            share_of("peak memory", |t| t.peak, PEAK_SHARE),
        ]
        .into_iter()
        .chain(wall)
        .collect()
    }

    fn to_json(&self) -> Value {
        let quoted = self
            .case
            .quoted
            .map(|[cpu, peak]| json!({"cpu_ms": cpu, "peak_mib": peak}));
        json!({"case": self.case.name, "plugin": self.plugin.to_json(),
               "peer": self.peer.as_ref().map(Measured::to_json), "linkerd_cni_quoted": quoted})
    }
}

impl Measured {
    fn to_json(&self) -> Value {
        let [low, wall, high] = self.wall();
        let traced = self
            .traced
            .map(|t| json!({"calls": t.calls, "programs": t.programs, "tasks": t.tasks}));
        let median = |of: fn(&Taken) -> f64| self.series.median(of);
        json!({"wall_us": {"p10": low, "median": wall, "p90": high}, "cpu_us": median(|t| t.cpu),
               "peak_kib": median(|t| t.peak), "requests": median(|t| t.requests as f64),
               "sent_bytes": median(|t| t.sent as f64), "received_bytes": median(|t| t.received as f64),
               "traced": traced, "runs": self.series.to_json()})
    }

    fn wall(&self) -> [f64; 3] {
        [0.1, 0.5, 0.9].map(|share| self.series.quantile(share, |t| t.wall))
    }
}
