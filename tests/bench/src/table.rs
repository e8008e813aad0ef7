//! Every case with its figures, and what of the promises was kept.

mod print;

use serde_json::{Value, json};

use crate::{
    case::Case,
    measure::{Series, Taken},
    promise::Promise,
    trace::Traced,
};

/// The most memory one call may have resident, in KiB.
const PEAK_LIMIT: f64 = 5.0 * 1024.0;
/// The most bytes the plugin's binary may have.
const SIZE_LIMIT: f64 = 4_000_000.0;
/// The most of linkerd-cni's memory.
const PEAK_SHARE: f64 = 1.0 / 6.0;
/// The most of linkerd-cni's size.
const SIZE_SHARE: f64 = 1.0 / 9.0;

/// What was measured of one program in one case.
#[derive(Default)]
pub struct Measured {
    /// All rounds.
    pub series: Series,
    /// One run, followed.
    pub traced: Option<Traced>,
}

/// All that was measured of one case.
pub struct Row<'a> {
    /// Which one.
    pub case: &'a Case,
    /// The plugin, or a minimal baseline program.
    pub ours: Measured,
    /// linkerd-cni, when there is one.
    pub peer: Option<Measured>,
}

/// Every case, and the sizes of the two binaries.
pub struct Table<'a> {
    /// A line each.
    pub rows: Vec<Row<'a>>,
    size: u64,
    peer_size: Option<u64>,
}

impl<'a> Table<'a> {
    /// Takes the rows in.
    pub fn new(rows: Vec<Row<'a>>, size: u64, peer_size: Option<u64>) -> Self {
        Self {
            rows,
            size,
            peer_size,
        }
    }

    /// True when none is missed.
    pub fn keeps_its_promises(&self) -> bool {
        self.promises().iter().all(Promise::is_kept)
    }

    /// One JSON document with every run in it; times in microseconds, memory in KiB.
    pub fn to_json(&self) -> String {
        let promises: Vec<_> = self
            .promises()
            .iter()
            .map(|p| json!({"of": p.of, "is": p.is, "at_most": p.at_most, "kept": p.is_kept()}))
            .collect();
        let rows: Vec<_> = self.rows.iter().map(Row::to_json).collect();
        json!({"binary_bytes": self.size, "peer_binary_bytes": self.peer_size, "cases": rows, "promises": promises})
            .to_string()
            + "\n"
    }

    fn promises(&self) -> Vec<Promise> {
        let mut promises = vec![Promise {
            of: "size of the binary in bytes".to_owned(),
            is: self.size as f64,
            at_most: SIZE_LIMIT,
        }];
        if let Some(peer) = self.peer_size {
            promises.push(Promise {
                of: "size of the binary, part of linkerd-cni's".to_owned(),
                is: self.size as f64 / peer as f64,
                at_most: SIZE_SHARE,
            });
        }
        for row in &self.rows {
            promises.extend(self.against_baseline(row));
            promises.extend(row.own_promises());
            promises.extend(row.to_its_peer());
        }
        promises
    }

    /// A case's wall time as so many times baseline's, of runs that nothing else held up.
    fn against_baseline(&self, row: &Row<'_>) -> Option<Promise> {
        let (baseline, at_most) = row.case.baseline?;
        let of = self.rows.iter().find(|row| row.case.name == baseline)?;
        Some(Promise {
            of: format!("{}: wall time, times {baseline:?}", row.case.name),
            is: row.ours.series.undisturbed_ratio(&of.ours.series, |t| t.wall),
            at_most,
        })
    }
}

impl Row<'_> {
    fn own_promises(&self) -> Vec<Promise> {
        let of = |what: &str| format!("{}: {what}", self.case.name);
        let peak = Promise {
            of: of("peak memory of one process in KiB"),
            is: self.ours.series.median(|t| t.peak) / self.case.at_once as f64,
            at_most: PEAK_LIMIT,
        };
        let programs = self.ours.traced.map(|traced| Promise {
            of: of("programs"),
            is: traced.programs as f64,
            at_most: 1.0,
        });
        [peak].into_iter().chain(programs).collect()
    }

    fn to_its_peer(&self) -> Vec<Promise> {
        let (Some(peer), Some(shares)) = (&self.peer, self.case.peer) else {
            return Vec::new();
        };
        let part = |what: &str, of: fn(&Taken) -> f64, at_most| Promise {
            of: format!("{}: {what}, part of linkerd-cni's", self.case.name),
            is: self.ours.series.ratio(&peer.series, of),
            at_most,
        };
        let wall = shares.wall.map(|share| part("wall time", |t| t.wall, share));
        [
            part("CPU time", |t| t.cpu, shares.cpu),
            part("peak memory", |t| t.peak, PEAK_SHARE),
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
        json!({"case": self.case.name, "ours": self.ours.to_json(),
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
