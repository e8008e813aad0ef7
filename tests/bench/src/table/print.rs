//! The table as text.

use std::fmt;

use super::{Measured, Row, Table};
use crate::{limit, trace::Traced};

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_peer = self.peer_size.is_some();
        write!(
            f,
            "{:<28} {:>8} {:>17} {:>7} {:>6} {:>8} {:>5} {:>8} {:>7} {:>8}  {:<16}",
            "case",
            "wall ms",
            "[p10 - p90]",
            "cpu ms",
            "MiB",
            "syscalls",
            "tasks",
            "requests",
            "sent B",
            "recv. B",
            "times baseline"
        )?;
        match has_peer {
            true => writeln!(
                f,
                " linkerd-cni: wall ms, cpu ms, MiB, requests, programs, syscalls; Evergreen's share of each"
            )?,
            false => writeln!(
                f,
                " (linkerd-cni in an earlier run, for information: cpu ms, MiB)"
            )?,
        }
        for row in &self.rows {
            self.line(row, f)?;
        }
        writeln!(f, "binary size: {} bytes", self.size)?;
        limit::print(&self.limits(), f)
    }
}

impl Table<'_> {
    fn line(&self, row: &Row<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28} {}", row.case.name, row.plugin)?;
        let baseline = self.against_baseline(row).map_or_else(String::new, |limit| {
            format!("{:.2} (limit {:.1})", limit.is, limit.at_most)
        });
        write!(f, "  {baseline:<16}")?;
        match (&row.peer, row.case.quoted) {
            (Some(peer), _) => write!(f, " {}", Shares(row, peer))?,
            (None, Some([cpu, peak])) if self.peer_size.is_none() => write!(f, " ({cpu}, {peak})")?,
            _ => {}
        }
        writeln!(f)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, wall, high] = self.wall().map(|us| us / 1000.0);
        let spread = format!("[{low:.2} - {high:.2}]");
        let (cpu, peak) = (self.series.median(|t| t.cpu), self.series.median(|t| t.peak));
        write!(
            f,
            "{wall:>8.2} {spread:>17} {:>7.2} {:>6.1}",
            cpu / 1000.0,
            peak / 1024.0
        )?;
        match self.traced {
            Some(traced) => write!(f, " {:>8} {:>5}", traced.calls, traced.tasks)?,
            None => write!(f, " {:>8} {:>5}", "", "")?,
        }
        let wire = [
            self.series.median(|t| t.requests as f64),
            self.series.median(|t| t.sent as f64),
            self.series.median(|t| t.received as f64),
        ];
        let [requests, sent, received] = wire;
        write!(f, " {requests:>8} {sent:>7} {received:>8}")
    }
}

/// linkerd-cni's figures and Evergreen's share of each.
struct Shares<'a>(&'a Row<'a>, &'a Measured);

impl fmt::Display for Shares<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(row, peer) = self;
        let median = |of| peer.series.median(of);
        write!(
            f,
            "{:.1}, {:.1}, {:.1}, {}",
            median(|t| t.wall) / 1000.0,
            median(|t| t.cpu) / 1000.0,
            median(|t| t.peak) / 1024.0,
            median(|t| t.requests as f64)
        )?;
        if let Some(Traced { calls, programs, .. }) = peer.traced {
            write!(f, ", {programs}, {calls}")?;
        }
        let share = |of| 1.0 / row.plugin.series.ratio(&peer.series, of);
        write!(
            f,
            "; wall 1/{:.1} cpu 1/{:.1} MiB 1/{:.1}",
            share(|t| t.wall),
            share(|t| t.cpu),
            share(|t| t.peak)
        )
    }
}
