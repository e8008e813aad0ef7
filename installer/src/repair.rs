//! What Linkerd's chart, and ours, runs as the repair controller, by its path in the image: pods of this node that started
//! without rules are made anew, by their controllers. The sandbox of such a pod can get no rules any more.
//!
//! Two things tell of them: a validator that found no redirection (such a pod waits for ever), and, where they are mounted,
//! libcni's own records of the lists by which sandboxes were made (a pod without a validator runs, and nobody knows).

mod act;
mod counts;
mod event;
mod flags;
mod pace;
mod pods;
mod records;
mod sandboxes;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    mem,
    os::fd::AsFd,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use evergreen_cni::{deadline::Deadline, kube::Error, log::Log};

use self::{
    act::Hand,
    counts::Counts,
    flags::Flags,
    pods::{List, Pod},
};
use crate::{
    api,
    config::{Place, Server},
    conflist,
    host::HostPath,
    report::{Report, Voice},
    serve,
    settings::Given,
    sys::{self, Signals},
};

/// The name under which this program is started for it.
pub const PROGRAM: &str = "linkerd-cni-repair-controller";
/// How often the node's pods are looked at, and how soon again where the first look leaves a doubt.
const PERIOD: Duration = Duration::from_secs(10);
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// Names the node whose pods are looked at, as Linkerd's chart does.
const NODE: &str = "LINKERD_CNI_REPAIR_CONTROLLER_NODE_NAME";
/// Names libcni's folder on the node.
const RESULTS_DIR: &str = "EVERGREEN_CNI_RESULTS_DIR";

/// What is looked at, and what was found the time before.
struct Repair {
    server: Server,
    node: String,
    place: Place,
    /// Where libcni's records are, when they are mounted.
    results: Option<HostPath>,
    /// Sandboxes without rules in the look before: one look alone may meet a record half replaced.
    suspects: BTreeSet<String>,
    /// The next look is to be soon.
    in_doubt: bool,
    hand: Hand,
    voice: Voice,
    counts: Arc<Counts>,
    log: Log,
}

/// Runs until it is asked to end. Takes the flags and variables of Linkerd's own.
pub fn run(arguments: Vec<OsString>, lookup: impl Fn(&str) -> Option<OsString>) -> Result<()> {
    let flags = Flags::read(arguments)?;
    let log = Log::of(PROGRAM, flags.level);
    let text = |name: &str| lookup(name).and_then(|value| value.into_string().ok());
    let Some(node) = text(NODE).filter(|n| !n.is_empty()) else {
        bail!("{NODE} is not set: name the node whose pods are looked at");
    };
    let dir = text(RESULTS_DIR).filter(|d| !d.is_empty());
    let given = Given::default().variables(&lookup)?;
    let server = Server::from_given(&given)?;
    let mut signals = Signals::take_over().context("take the signals over")?;
    let counts = Arc::new(Counts::default());
    let asked = Arc::clone(&counts);
    serve::start(flags.admin, Arc::new(move |path| asked.answer(path)), log)?;
    let mut repair = Repair {
        results: results(&given, dir.as_deref().unwrap_or(records::USUAL_DIR), log)?,
        place: Place::for_removal(&given)?,
        hand: Hand::new(&server, &counts, log),
        suspects: BTreeSet::new(),
        in_doubt: false,
        voice: Voice::default(),
        server,
        node,
        counts,
        log,
    };
    loop {
        let began = Instant::now();
        repair.in_doubt = false;
        if let Err(error) = repair.look() {
            repair.counts.failed.fetch_add(1, Ordering::Relaxed);
            log.warn(format_args!("problem={:?}", error.to_string()));
        }
        let period = if repair.in_doubt { SECOND_LOOK } else { PERIOD };
        while began.elapsed() < period {
            sys::wait_readable(&[signals.as_fd()], period.saturating_sub(began.elapsed()))?;
            if signals.came() {
                return Ok(());
            }
        }
    }
}

/// libcni's folder, when it is mounted; says which.
fn results(given: &Given, dir: &str, log: Log) -> Result<Option<HostPath>> {
    if !dir.starts_with('/') {
        bail!("{RESULTS_DIR} is {dir:?}: write an absolute path of the node");
    }
    let dir = HostPath::new(Path::new(given.value("CONTAINER_MOUNT_PREFIX")), Path::new(dir));
    if dir.here().is_dir() {
        log.info(format_args!("records={dir}"));
        return Ok(Some(dir));
    }
    log.info(format_args!(
        "records=none because={:?}",
        format!("{dir} is not mounted: only pods whose validator found no redirection are known")
    ));
    Ok(None)
}

impl Repair {
    /// One look at the node's pods, and what follows from it.
    fn look(&mut self) -> Result<(), Error> {
        let mut client = api::as_pod(&self.server, Deadline::after(api::ASKING_TAKES))?;
        // Only what the injector has touched, as the watch cache has it by its index of nodes. In pages, a server before
        // 1.34 would read every pod of the cluster from etcd for each.
        let path = format!(
            "/api/v1/pods?fieldSelector=spec.nodeName%3D{}&labelSelector=linkerd.io%2Fcontrol-plane-ns&resourceVersion=0",
            self.node
        );
        let list: List = client.list(&path, &format!("list the pods of node {}", self.node))?;
        self.counts.listed.store(true, Ordering::Relaxed);
        let pods = list.pods();
        for pod in pods.iter().filter(|pod| pod.not_redirected) {
            self.hand.delete(&mut client, pod);
        }
        let without = self.without_rules(&pods);
        let count = u64::try_from(without.len()).unwrap_or(u64::MAX);
        self.counts.without_rules.store(count, Ordering::Relaxed);
        for pod in without {
            self.hand.evict(&mut client, pod);
        }
        self.hand.forget_all_but(&pods);
        Ok(())
    }

    /// Those that run without rules, unknown to everybody but libcni.
    fn without_rules<'a>(&mut self, pods: &'a [Pod]) -> Vec<&'a Pod> {
        let mut report = Report::default();
        let untold: Vec<&Pod> = pods.iter().filter(|pod| pod.untold).collect();
        let suspects = match &self.results {
            Some(dir) if !untold.is_empty() => match suspects(&self.place, dir, &untold, &mut report) {
                Ok(suspects) => suspects,
                Err(error) => {
                    report.failed("records", dir, &error);
                    Vec::new()
                }
            },
            _ => Vec::new(),
        };
        self.voice.say(self.log, &report);
        let before = mem::take(&mut self.suspects);
        self.suspects = suspects.iter().map(|(_, sandbox)| sandbox.clone()).collect();
        self.in_doubt = !self.suspects.is_subset(&before);
        let sure = suspects
            .into_iter()
            .filter(|(_, sandbox)| before.contains(sandbox));
        sure.map(|(pod, _)| pod).collect()
    }
}

/// Of these pods, those whose sandbox was made without us, and the sandbox.
fn suspects<'a>(
    place: &Place,
    dir: &HostPath,
    pods: &[&'a Pod],
    report: &mut Report,
) -> Result<Vec<(&'a Pod, String)>> {
    let records = records::read(dir.here(), &place.type_name)?;
    let programming = conflist::programming(place).with_context(|| format!("look at {}", place.net_dir))?;
    let sandboxes = sandboxes::newest(&records, &programming);
    let of = |pod: &Pod| sandboxes.get(&*pod.kubelet_uid);
    if !pods.iter().any(|pod| of(pod).is_some()) {
        report.notice(format_args!(
            "{dir}: no record of any meshed pod of this node; is this where the runtime keeps them ({RESULTS_DIR})?"
        ));
    }
    let without = pods.iter().filter_map(|pod| {
        let sandbox = of(pod).filter(|sandbox| sandbox.without_us)?;
        Some((*pod, sandbox.id.to_owned()))
    });
    Ok(without.collect())
}
