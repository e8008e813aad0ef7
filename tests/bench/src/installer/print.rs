//! The figures as a person reads them.

use std::fmt;

use super::{Installer, ROTATIONS, Rest};
use crate::promise;

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rest {
            lasted,
            used,
            probes,
            turns,
            requests,
            resident,
        } = &self.rest;
        writeln!(f, "evergreen-install, {} bytes", self.size)?;
        writeln!(
            f,
            "at rest   {:.0} s: {:.3} % of one processor ({:.1} ms for {turns} turns, {requests} requests, {probes} probes), \
             {resident:.1} MiB resident; {:.1} after all rotations, {:.1} at its peak",
            lasted.as_secs_f64(),
            self.rest.percent(),
            used.as_secs_f64() * 1000.0,
            self.resident,
            self.peak
        )?;
        writeln!(
            f,
            "rotation  from the kubelet's write to the file on the host, {ROTATIONS} of each"
        )?;
        for rotation in &self.rotations {
            let [low, median, high] = [0.1, 0.5, 0.9].map(|share| rotation.quantile(share));
            writeln!(f, "  {:<22} {median:>6.1} ms [{low:.1} - {high:.1}]", rotation.of)?;
        }
        promise::print(&self.promises(), f)
    }
}
