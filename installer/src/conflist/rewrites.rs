//! A neighbour who undoes what we write: followed, but not fought, and named.

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use super::{edit::Network, pace::Pace};
use crate::{atomic::Identity, config::Place, host::HostPath, report::Report};

/// What Cilium renames other networks to while it is exclusive.
const PUT_ASIDE_BY_CILIUM: &str = "cilium_bak";

/// When which file was written, so that a neighbour who undoes it is not fought.
#[derive(Debug, Default)]
pub struct Rewrites(BTreeMap<HostPath, Pace<Option<Identity>>>);

impl Rewrites {
    /// True when the file may be written now, instead of what is there. The first time is no rewrite.
    pub fn may_write(&mut self, file: &HostPath, there: Option<Identity>, report: &mut Report) -> bool {
        let now = Instant::now();
        let Some(pace) = self.0.get_mut(file) else {
            self.0.insert(file.clone(), Pace::new());
            return true;
        };
        let wait = pace.wait(now, there);
        if wait.is_zero() {
            pace.wrote(now);
        } else {
            report.hold_back(wait);
        }
        wait.is_zero()
    }

    /// True when somebody must be undoing what we write.
    pub fn is_fight(&self, file: &HostPath) -> bool {
        self.0.get(file).is_some_and(Pace::is_fight)
    }
}

/// What is said of a fight.
pub fn cause_of_fight(network: &Network) -> &'static str {
    if network.has("cilium-cni") {
        "something takes our entry out whenever we put it in, so we do it less than once a second; \
         Cilium in exclusive mode does this: set cni.exclusive=false in its chart"
    } else {
        "something takes our entry out whenever we put it in, so we do it less than once a second; \
         is it an agent that wants to be alone or the last (for Cilium, set cni.exclusive=false)?"
    }
}

/// Says which networks Cilium has put aside.
pub fn warn_of_cilium(place: &Place, report: &mut Report) {
    let Ok(entries) = fs::read_dir(place.net_dir.here()) else {
        return;
    };
    for name in entries.flatten().map(|e| e.file_name()) {
        if Path::new(&name)
            .extension()
            .is_some_and(|e| e == PUT_ASIDE_BY_CILIUM)
        {
            let file = place.net_dir.join(&name);
            report.notice(format_args!(
                "{file}: Cilium has put this network aside; if it is needed, set cni.exclusive=false"
            ));
        }
    }
}
