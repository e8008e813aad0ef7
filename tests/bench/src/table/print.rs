//! The table as a person reads it.

use std::fmt;

use super::{Measured, Row, Table};
use crate::{promise, trace::Traced};

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_peer = self.peer_size.is_some();
        write!(
            f,
            "{:<28} {:>8} {:>17} {:>7} {:>6} {:>5} {:>5} {:>4} {:>6} {:>7}  {:<16}",
            "case",
            "wall ms",
            "[p10 - p90]",
            "cpu ms",
            "MiB",
            "calls",
            "tasks",
            "reqs",
            "sent B",
            "recvd B",
            "times baseline"
        )?;
        match has_peer {
            true => writeln!(
                f,
                " linkerd-cni: wall ms, cpu ms, MiB, requests, programs, calls, and our parts of it"
            )?,
            false => writeln!(
                f,
                " (linkerd-cni when it was last run beside ours, not judged: cpu ms, MiB)"
            )?,
        }
        for row in &self.rows {
            self.line(row, f)?;
        }
        writeln!(f, "the binary has {} bytes", self.size)?;
        promise::print(&self.promises(), f)
    }
}

impl Table<'_> {
    fn line(&self, row: &Row<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28} {}", row.case.name, row.ours)?;
        let baseline = self.against_baseline(row).map_or_else(String::new, |promise| {
            format!("{:.2} (of {:.1})", promise.is, promise.at_most)
        });
        write!(f, "  {baseline:<16}")?;
        match (&row.peer, row.case.quoted) {
            (Some(peer), _) => write!(f, " {}", Parts(row, peer))?,
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
            Some(traced) => write!(f, " {:>5} {:>5}", traced.calls, traced.tasks)?,
            None => write!(f, " {:>5} {:>5}", "", "")?,
        }
        let wire = [
            self.series.median(|t| t.requests as f64),
            self.series.median(|t| t.sent as f64),
            self.series.median(|t| t.received as f64),
        ];
        let [requests, sent, received] = wire;
        write!(f, " {requests:>4} {sent:>6} {received:>7}")
    }
}

/// linkerd-cni's figures and our parts of them.
struct Parts<'a>(&'a Row<'a>, &'a Measured);

impl fmt::Display for Parts<'_> {
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
        let part = |of| 1.0 / row.ours.series.ratio(&peer.series, of);
        write!(
            f,
            "; wall 1/{:.1} cpu 1/{:.1} MiB 1/{:.1}",
            part(|t| t.wall),
            part(|t| t.cpu),
            part(|t| t.peak)
        )
    }
}
