//! A neighbour who undoes what we write: answered at once, but not fought, and named.

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use super::{network::Network, pace::Pace};
use crate::{
    cli::config::Paths,
    health::report::Report,
    node::{
        atomic::{Identity, Spare},
        host::HostPath,
    },
};

/// What Cilium renames other networks to while it is exclusive.
const PUT_ASIDE_BY_CILIUM: &str = "cilium_bak";

/// When which file was written, so that a neighbour who undoes it is not fought; and each as it shall be, so that one who
/// undoes it now and then is answered without a wait for the disk.
#[derive(Debug, Default)]
pub struct Rewrites {
    paces: BTreeMap<HostPath, Pace<Option<Identity>>>,
    spares: BTreeMap<HostPath, Spare>,
    stays: bool,
}

impl Rewrites {
    /// None yet. Only an installer that stays has use for spares.
    pub fn new(stays: bool) -> Self {
        Self {
            stays,
            ..Self::default()
        }
    }

    /// To be told of a file that is as it shall be, when there is time.
    pub fn lay_ready(&mut self, file: &HostPath, content: &[u8]) {
        if !self.stays || self.spares.get(file).is_some_and(|s| s.holds(content)) {
            return;
        }
        self.spares.remove(file);
        if let Some(spare) = Spare::make(file.here(), content) {
            self.spares.insert(file.clone(), spare);
        }
    }

    /// What lies ready for this file.
    pub fn take_spare(&mut self, file: &HostPath) -> Option<Spare> {
        self.spares.remove(file)
    }

    /// True when the file may be written now, instead of what is there. The first time is no rewrite.
    pub fn may_write(&mut self, file: &HostPath, there: Option<Identity>, report: &mut Report) -> bool {
        let now = Instant::now();
        let Some(pace) = self.paces.get_mut(file) else {
            self.paces.insert(file.clone(), Pace::new());
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
        self.paces.get(file).is_some_and(Pace::is_fight)
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
pub fn warn_of_cilium(place: &Paths, report: &mut Report) {
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
