//! The figures as text.

use std::fmt;

use super::{Idle, Installer, ROTATIONS};
use crate::limit;

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Idle {
            lasted,
            used,
            probes,
            passes,
            requests,
            resident,
        } = &self.idle;
        writeln!(f, "evergreen-install, {} bytes", self.size)?;
        writeln!(
            f,
            "idle      {:.0} s: {:.3} % of one processor ({:.1} ms for {passes} reconcile passes, {requests} requests, \
             {probes} probes), {resident:.1} MiB resident; {:.1} MiB after all rotations, {:.1} MiB peak",
            lasted.as_secs_f64(),
            self.idle.percent(),
            used.as_secs_f64() * 1000.0,
            self.resident,
            self.peak
        )?;
        writeln!(
            f,
            "rotation  from the kubelet's write to the file on the host, {ROTATIONS} of each kind"
        )?;
        for rotation in &self.rotations {
            let [low, median, high] = [0.1, 0.5, 0.9].map(|share| rotation.quantile(share));
            writeln!(f, "  {:<22} {median:>6.1} ms [{low:.1} - {high:.1}]", rotation.of)?;
        }
        limit::print(&self.limits(), f)
    }
}
