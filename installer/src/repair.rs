//! The repair controller, which Linkerd's chart and ours start by its path in the image. It finds pods of this node that
//! started without rules and deletes or evicts them, so that their controllers recreate them: a sandbox that exists cannot
//! get rules later.
//!
//! It finds them in two ways. A network validator that saw no redirection keeps its pod from starting. A pod without a
//! validator runs unmeshed and looks healthy; libcni's records, where they are mounted, show which conflist its sandbox was
//! created from.

mod backoff;
mod event;
mod evictor;
mod flags;
mod metrics;
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

pub use self::flags::PROGRAM;
use self::{
    evictor::Evictor,
    flags::Flags,
    metrics::Metrics,
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

/// Time between two reconcile passes.
const PERIOD: Duration = Duration::from_secs(10);
/// Time until the next pass when this one found a new suspect.
const CONFIRM_AFTER: Duration = Duration::from_secs(1);
/// Time between two lists of all pods, whatever their phase, with records and without. A pod whose sandbox was recreated is
/// `Running` while its validator fails, since none of its containers waits for its first start (kubelet's `getPhase`). With
/// records: the kubelet's longest pause between two starts of a validator. Without: shorter, as nothing else shows such pods.
const LIST_ALL_WITH_RECORDS: Duration = Duration::from_secs(300);
const LIST_ALL_WITHOUT_RECORDS: Duration = Duration::from_secs(60);
/// The node whose pods are repaired; a variable of Linkerd's chart.
const NODE: &str = "LINKERD_CNI_REPAIR_CONTROLLER_NODE_NAME";
/// libcni's results directory on the node.
const RESULTS_DIR: &str = "EVERGREEN_CNI_RESULTS_DIR";

/// The controller and its state between two passes.
struct Repair {
    server: Server,
    node: String,
    paths: Paths,
    /// libcni's results directory, if it is mounted.
    results: Option<HostPath>,
    suspects: Suspects,
    /// When all pods of the node were last listed.
    listed_all: Option<Instant>,
    /// Number of evictions tried so far.
    evictions: usize,
    evictor: Evictor,
    report_log: ReportLog,
    metrics: Arc<Metrics>,
    log: Log,
}

/// Runs the controller until SIGTERM or SIGINT. Takes the flags and variables of Linkerd's controller, and sets `log` to the
/// format that the flags ask for.
pub fn run(arguments: Vec<OsString>, lookup: impl Fn(&str) -> Option<OsString>, log: &mut Log) -> Result<()> {
    *log = Log::new(Component::Repair, Level::Info);
    let flags = Flags::parse(arguments)?;
    *log = Log::new(Component::Repair, flags.level).format(flags.format);
    let text = |name: &str| {
        let text = lookup(name).and_then(|value| value.into_string().ok());
        text.filter(|text| !text.is_empty())
    };
    let Some(node) = text(NODE) else {
        bail!("{NODE} is not set: set it to the name of the node whose pods are repaired");
    };
    let dir = text(RESULTS_DIR).unwrap_or_else(|| records::DEFAULT_DIR.to_owned());
    let given = RawSettings::default().with_variables(&lookup)?;
    let server = Server::from_settings(&given)?;
    let signals = Signals::block().context("block SIGTERM and SIGINT")?;
    let metrics = Arc::new(Metrics::default());
    let served = Arc::clone(&metrics);
    serve::start(flags.admin, Arc::new(move |path| served.answer(path)), *log)?;
    let repair = Repair {
        results: results(&given, &dir, *log)?,
        paths: Paths::for_removal(&given)?,
        evictor: Evictor::new(&server, &metrics, *log),
        suspects: Suspects::new(Instant::now()),
        listed_all: None,
        evictions: 0,
        report_log: ReportLog::default(),
        server,
        node,
        metrics,
        log: *log,
    };
    repair.run(signals)
}

/// Returns libcni's results directory if it is mounted, and logs which is used.
fn results(given: &RawSettings, dir: &str, log: Log) -> Result<Option<HostPath>> {
    if !dir.starts_with('/') {
        bail!("{RESULTS_DIR} is {dir:?}: write an absolute path on the node");
    }
    let dir = HostPath::new(Path::new(given.value("CONTAINER_MOUNT_PREFIX")), Path::new(dir));
    if dir.here().is_dir() {
        log.with(&[("path", &dir)]).info("libcni results directory found");
        return Ok(Some(dir));
    }
    let reason = "only pods whose network validator failed can be found";
    log.with(&[("path", &dir), ("reason", &reason)])
        .info("libcni results directory not mounted");
    Ok(None)
}

impl Repair {
    fn run(mut self, mut signals: Signals) -> Result<()> {
        loop {
            let began = Instant::now();
            let pass = self.reconcile();
            let period = match &pass {
                Ok(()) if self.suspects.are_unconfirmed() => CONFIRM_AFTER,
                _ => PERIOD,
            };
            if let Err(error) = pass {
                self.metrics.failed.fetch_add(1, Ordering::Relaxed);
                self.log.with(&[("error", &error)]).warn("reconcile pass failed");
            }
            // At least one check for signals, however long the pass took.
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

    /// One reconcile pass.
    fn reconcile(&mut self) -> Result<(), Error> {
        let mut client = api::as_pod(&self.server, Deadline::after(api::TIMEOUT))?;
        let suspects = self.suspects();
        let all = !suspects.is_empty() || self.is_list_of_all_due();
        // A failing validator keeps a new pod from running. On a healthy node this list is empty.
        let fields = if all {
            ""
        } else {
            ",status.phase!=Running,status.phase!=Succeeded"
        };
        let pods = self.list(&mut client, fields)?;
        self.metrics.listed.store(true, Ordering::Relaxed);
        if all {
            self.listed_all = Some(Instant::now());
            self.evictor.forget_all_but(&pods);
        }
        for pod in pods.iter().filter(|pod| pod.not_redirected) {
            self.evictor.delete(&mut client, pod);
        }
        let unmeshed = self.unmeshed(suspects, pods);
        let count = u64::try_from(unmeshed.len()).unwrap_or(u64::MAX);
        self.metrics.without_rules.store(count, Ordering::Relaxed);
        self.evict(&unmeshed);
        Ok(())
    }

    /// Evicts pods for at most one period, since pods with a failed validator wait for the next pass. That pass continues
    /// with the pod after the last one.
    fn evict(&mut self, pods: &[Pod]) {
        let began = Instant::now();
        let first = self.evictions.checked_rem(pods.len()).unwrap_or(0);
        for pod in pods[first..].iter().chain(&pods[..first]) {
            if began.elapsed() >= PERIOD {
                break;
            }
            self.evictor.evict(pod);
            self.evictions = self.evictions.wrapping_add(1);
        }
    }

    fn is_list_of_all_due(&self) -> bool {
        let every = match self.results {
            Some(_) => LIST_ALL_WITH_RECORDS,
            None => LIST_ALL_WITHOUT_RECORDS,
        };
        self.listed_all.is_none_or(|last| last.elapsed() >= every)
    }

    /// Lists the injected pods of this node from the API server's watch cache, which has an index of nodes. (For a list in
    /// pages, servers before 1.34 would read all pods of the cluster from etcd for each page.)
    fn list(&self, client: &mut Client, more_fields: &str) -> Result<Vec<Pod>, Error> {
        let node = &self.node;
        let fields = format!("spec.nodeName={node}{more_fields}")
            .replace('=', "%3D")
            .replace(',', "%2C");
        let path = format!(
            "/api/v1/pods?fieldSelector={fields}&labelSelector=linkerd.io%2Fcontrol-plane-ns&resourceVersion=0"
        );
        let list: List = requests::list(client, &path, &format!("list the pods of node {node}"))?;
        Ok(list.pods())
    }

    /// Returns the sandboxes without rules whose pods the API server has to be asked for, and the kubelet's UIDs of those
    /// pods.
    fn suspects(&mut self) -> BTreeMap<String, String> {
        let mut report = Report::default();
        let found = match &self.results {
            Some(dir) => unmeshed_sandboxes(&self.paths, dir, &mut report).unwrap_or_else(|error| {
                report.failed("records", dir, &error);
                BTreeMap::new()
            }),
            None => BTreeMap::new(),
        };
        self.report_log.write(self.log, &report);
        self.suspects.unsettled(found, Instant::now())
    }

    /// Returns the pods that need rules and run in a sandbox without. Settles sandboxes whose pods need none.
    fn unmeshed(&mut self, suspects: BTreeMap<String, String>, pods: Vec<Pod>) -> Vec<Pod> {
        let mut pods: BTreeMap<String, Pod> = pods
            .into_iter()
            .map(|pod| (pod.kubelet_uid.clone(), pod))
            .collect();
        let mut unmeshed = Vec::new();
        for (sandbox, uid) in suspects {
            match pods.remove(&uid) {
                Some(pod) if pod.lacks_validator && pod.runs => unmeshed.push(pod),
                Some(pod) if pod.lacks_validator || pod.validating => {}
                _ => self.suspects.settle(&sandbox),
            }
        }
        unmeshed
    }
}

/// Returns the sandboxes of this node that were created without our entry, and the kubelet's UIDs of their pods.
fn unmeshed_sandboxes(
    paths: &Paths,
    dir: &HostPath,
    report: &mut Report,
) -> Result<BTreeMap<String, String>> {
    let records = records::read(dir.here(), &paths.type_name)?;
    if records.is_empty() {
        report.notice(format_args!(
            "{dir}: no record of any pod; is this the runtime's libcni results directory ({RESULTS_DIR})?"
        ));
    }
    let programming = conflist::programming(paths).with_context(|| format!("read {}", paths.net_dir))?;
    let newest = sandboxes::newest(&records, &programming).into_iter();
    let unmeshed = newest.filter(|(_, sandbox)| sandbox.unmeshed);
    Ok(unmeshed
        .map(|(uid, sandbox)| (sandbox.id.to_owned(), uid.to_owned()))
        .collect())
}
