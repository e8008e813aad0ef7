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
mod suspects;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::fd::AsFd,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use evergreen_kube::{
    Client, Error,
    deadline::Deadline,
    log::{Component, Level, Log},
};

use self::{
    act::Evictor,
    counts::Counts,
    flags::Flags,
    pods::{List, Pod},
    suspects::Suspects,
};
use crate::{
    cli::{
        config::{Paths, Server},
        settings::RawSettings,
    },
    cluster::{api, requests},
    health::serve,
    host::HostPath,
    node::{
        conflist,
        report::{Report, ReportLog},
    },
    sys::{self, Signals},
};

/// The name under which this program is started for it.
pub const PROGRAM: &str = "linkerd-cni-repair-controller";
/// How often the node's pods are looked at, and how soon again where the first look leaves a doubt.
const PERIOD: Duration = Duration::from_secs(10);
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// How often all pods of the node are listed whatever the records say, with records and without. One whose sandbox was made
/// anew counts as running while its validator fails: none of its containers waits for its first start (kubelet's
/// `getPhase`). As long as the kubelet pauses between two starts of a validator at most, and more often where nothing else
/// tells of such pods.
const ALL_WITH_RECORDS: Duration = Duration::from_secs(300);
const ALL_WITHOUT: Duration = Duration::from_secs(60);
/// Names the node whose pods are looked at, as Linkerd's chart does.
const NODE: &str = "LINKERD_CNI_REPAIR_CONTROLLER_NODE_NAME";
/// Names libcni's folder on the node.
const RESULTS_DIR: &str = "EVERGREEN_CNI_RESULTS_DIR";

/// What is looked at, and what was found the time before.
struct Repair {
    server: Server,
    node: String,
    paths: Paths,
    /// Where libcni's records are, when they are mounted.
    results: Option<HostPath>,
    suspects: Suspects,
    /// When all pods of the node were last listed.
    listed_all: Option<Instant>,
    /// How many were asked for so far.
    evictions: usize,
    hand: Evictor,
    voice: ReportLog,
    counts: Arc<Counts>,
    log: Log,
}

/// Runs until it is asked to end. Takes the flags and variables of Linkerd's own.
pub fn run(arguments: Vec<OsString>, lookup: impl Fn(&str) -> Option<OsString>, log: &mut Log) -> Result<()> {
    *log = Log::new(Component::Repair, Level::Info);
    let flags = Flags::read(arguments)?;
    *log = Log::new(Component::Repair, flags.level);
    let log = *log;
    let text = |name: &str| lookup(name).and_then(|value| value.into_string().ok());
    let Some(node) = text(NODE).filter(|n| !n.is_empty()) else {
        bail!("{NODE} is not set: name the node whose pods are looked at");
    };
    let dir = text(RESULTS_DIR).filter(|d| !d.is_empty());
    let given = RawSettings::default().with_variables(&lookup)?;
    let server = Server::from_settings(&given)?;
    let mut signals = Signals::block().context("block SIGTERM and SIGINT")?;
    let counts = Arc::new(Counts::default());
    let asked = Arc::clone(&counts);
    serve::start(flags.admin, Arc::new(move |path| asked.answer(path)), log)?;
    let mut repair = Repair {
        results: results(&given, dir.as_deref().unwrap_or(records::USUAL_DIR), log)?,
        paths: Paths::for_removal(&given)?,
        hand: Evictor::new(&server, &counts, log),
        suspects: Suspects::new(Instant::now()),
        listed_all: None,
        evictions: 0,
        voice: ReportLog::default(),
        server,
        node,
        counts,
        log,
    };
    loop {
        let began = Instant::now();
        let looked = repair.look();
        let period = match &looked {
            Ok(()) if repair.suspects.in_doubt() => SECOND_LOOK,
            _ => PERIOD,
        };
        if let Err(error) = looked {
            repair.counts.failed.fetch_add(1, Ordering::Relaxed);
            log.warn(format_args!("problem={:?}", error.to_string()));
        }
        // At least once, however long the look has taken.
        loop {
            sys::wait_readable(&[signals.as_fd()], period.saturating_sub(began.elapsed()))?;
            if signals.arrived() {
                return Ok(());
            }
            if began.elapsed() >= period {
                break;
            }
        }
    }
}

/// libcni's folder, when it is mounted; says which.
fn results(given: &RawSettings, dir: &str, log: Log) -> Result<Option<HostPath>> {
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
    /// One look at the node, and what follows from it.
    fn look(&mut self) -> Result<(), Error> {
        let mut client = api::as_pod(&self.server, Deadline::after(api::TIMEOUT))?;
        let suspects = self.suspects();
        let all = !suspects.is_empty() || self.all_are_due();
        // A validator that fails keeps a new pod from running: on a node at rest this is an empty list.
        let fields = if all {
            ""
        } else {
            ",status.phase!=Running,status.phase!=Succeeded"
        };
        let pods = self.list(&mut client, fields)?;
        self.counts.listed.store(true, Ordering::Relaxed);
        if all {
            self.listed_all = Some(Instant::now());
            self.hand.forget_all_but(&pods);
        }
        for pod in pods.iter().filter(|pod| pod.not_redirected) {
            self.hand.delete(&mut client, pod);
        }
        let without = self.without_rules(suspects, pods);
        let count = u64::try_from(without.len()).unwrap_or(u64::MAX);
        self.counts.without_rules.store(count, Ordering::Relaxed);
        self.evict(&without);
        Ok(())
    }

    /// As many as there is time for: validators that failed wait for the next look. It goes on where it has stopped.
    fn evict(&mut self, pods: &[Pod]) {
        let began = Instant::now();
        let first = self.evictions.checked_rem(pods.len()).unwrap_or(0);
        for pod in pods[first..].iter().chain(&pods[..first]) {
            if began.elapsed() >= PERIOD {
                break;
            }
            self.hand.evict(pod);
            self.evictions = self.evictions.wrapping_add(1);
        }
    }

    fn all_are_due(&self) -> bool {
        let every = match self.results {
            Some(_) => ALL_WITH_RECORDS,
            None => ALL_WITHOUT,
        };
        self.listed_all.is_none_or(|last| last.elapsed() >= every)
    }

    /// The pods of this node that the injector has touched, as the watch cache has them by its index of nodes. (In pages,
    /// servers before 1.34 would read every pod of the cluster from etcd for each.)
    fn list(&self, client: &mut Client, and: &str) -> Result<Vec<Pod>, Error> {
        let node = &self.node;
        let fields = format!("spec.nodeName={node}{and}")
            .replace('=', "%3D")
            .replace(',', "%2C");
        let path = format!(
            "/api/v1/pods?fieldSelector={fields}&labelSelector=linkerd.io%2Fcontrol-plane-ns&resourceVersion=0"
        );
        let list: List = requests::list(client, &path, &format!("list the pods of node {node}"))?;
        Ok(list.pods())
    }

    /// The sandboxes that were made without us and are to be asked about, and what the kubelet calls their pods by.
    fn suspects(&mut self) -> BTreeMap<String, String> {
        let mut report = Report::default();
        let found = match &self.results {
            Some(dir) => made_without_us(&self.paths, dir, &mut report).unwrap_or_else(|error| {
                report.failed("records", dir, &error);
                BTreeMap::new()
            }),
            None => BTreeMap::new(),
        };
        self.voice.write(self.log, &report);
        self.suspects.ask_about(found, Instant::now())
    }

    /// Those of the pods that run in such a sandbox, unknown to everybody but libcni.
    fn without_rules(&mut self, suspects: BTreeMap<String, String>, pods: Vec<Pod>) -> Vec<Pod> {
        let mut pods: BTreeMap<String, Pod> = pods
            .into_iter()
            .map(|pod| (pod.kubelet_uid.clone(), pod))
            .collect();
        let mut without = Vec::new();
        for (sandbox, uid) in suspects {
            match pods.remove(&uid) {
                Some(pod) if pod.lacks_validator && pod.runs => without.push(pod),
                Some(pod) if pod.lacks_validator || pod.validating => {}
                _ => self.suspects.settle(&sandbox),
            }
        }
        without
    }
}

/// The sandboxes of this node that were made without us, and what the kubelet calls their pods by.
fn made_without_us(paths: &Paths, dir: &HostPath, report: &mut Report) -> Result<BTreeMap<String, String>> {
    let records = records::read(dir.here(), &paths.type_name)?;
    if records.is_empty() {
        report.notice(format_args!(
            "{dir}: no record of any pod; is this where the runtime keeps them ({RESULTS_DIR})?"
        ));
    }
    let programming = conflist::programming(paths).with_context(|| format!("look at {}", paths.net_dir))?;
    let newest = sandboxes::newest(&records, &programming).into_iter();
    let without = newest.filter(|(_, sandbox)| sandbox.unmeshed);
    Ok(without
        .map(|(uid, sandbox)| (sandbox.id.to_owned(), uid.to_owned()))
        .collect())
}
