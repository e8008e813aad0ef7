//! Deletes or evicts pods without rules that a controller recreates, and writes an Event that says why.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use evergreen_kube::{Class, Client, Error, deadline::Deadline, log::Log};
use serde_json::json;

use super::{backoff::Backoff, event, metrics::Metrics, pods::Pod};
use crate::{
    cli::config::Server,
    cluster::{api, requests},
};

/// The deadline of an eviction and its Event, which have a client of their own: while a PodDisruptionBudget refuses, the
/// client retries until its deadline, and one client for all pods would have no time left for the others.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(2);

/// The first part of the reason of pods that run without rules. A reason is logged and is the message of an Event.
macro_rules! unmeshed {
    ($rest:literal) => {
        concat!(
            "the pod runs without redirection rules, bypassing its proxy: its sandbox was created from a CNI conflist \
             without the plugin's entry; ",
            $rest
        )
    };
}

const VALIDATOR_FAILED: &str = "the pod's sandbox was created before the CNI plugin was in place; deleted, so that its controller recreates it";
const WITHOUT_ENTRY: &str = unmeshed!("evicted, so that its controller recreates it");
const OF_A_JOB: &str = unmeshed!(
    "it belongs to a Job, which would lose its work and may fail, so it is kept: delete it to have it recreated"
);
const BARE: &str = unmeshed!("no controller would recreate it, so it is kept: delete it and create it again");

/// Deletes and evicts pods.
pub struct Evictor {
    server: Server,
    backoff: Backoff,
    /// UIDs of pods that are kept and have an Event.
    reported: BTreeSet<String>,
    metrics: Arc<Metrics>,
    log: Log,
}

impl Evictor {
    /// Creates an evictor that asks this API server.
    pub fn new(server: &Server, metrics: &Arc<Metrics>, log: Log) -> Self {
        Self {
            server: server.clone(),
            backoff: Backoff::default(),
            reported: BTreeSet::new(),
            metrics: Arc::clone(metrics),
            log,
        }
    }

    /// Deletes a pod that cannot start because its validator found no redirection.
    pub fn delete(&mut self, client: &mut Client, pod: &Pod) {
        let Some(controller) = &pod.controller else {
            self.log
                .with(&[("pod", &pod.id()), ("reason", &"no controller would recreate it")])
                .debug("pod kept");
            return;
        };
        if self.backoff.try_start(controller) {
            let result = requests::delete(client, &path(pod), &pod.uid, &format!("delete pod {}", pod.id()));
            self.finish(client, pod, result, VALIDATOR_FAILED);
        }
    }

    /// Evicts a pod that runs, and may serve others: its PodDisruptionBudget is respected.
    pub fn evict(&mut self, pod: &Pod) {
        match api::as_pod(&self.server, Deadline::after(EVICTION_TIMEOUT)) {
            Ok(mut client) => self.evict_with(&mut client, pod),
            Err(error) => self.failed(&error),
        }
    }

    fn evict_with(&mut self, client: &mut Client, pod: &Pod) {
        let controller = match &pod.controller {
            Some(_) if pod.is_of_job => return self.keep(client, pod, OF_A_JOB),
            None => return self.keep(client, pod, BARE),
            Some(controller) => controller,
        };
        if !self.backoff.try_start(controller) {
            return;
        }
        match evict(client, pod) {
            Err(error) if error.class == Class::TooManyRequests => {
                self.backoff.undo(controller);
                self.log
                    .with(&[("pod", &pod.id()), ("error", &error)])
                    .info("eviction refused");
            }
            result => self.finish(client, pod, result, WITHOUT_ENTRY),
        }
    }

    /// Reports a pod that is kept, once.
    fn keep(&mut self, client: &mut Client, pod: &Pod, reason: &str) {
        if !self.reported.contains(&pod.uid) && event::write(client, pod, reason) {
            self.reported.insert(pod.uid.clone());
            self.log
                .with(&[("pod", &pod.id()), ("uid", &pod.uid), ("reason", &reason)])
                .warn("pod without rules kept");
        }
    }

    /// Forgets the pods that no longer exist.
    pub fn forget_all_but(&mut self, pods: &[Pod]) {
        self.reported.retain(|uid| pods.iter().any(|pod| pod.uid == *uid));
    }

    fn finish(&self, client: &mut Client, pod: &Pod, result: Result<(), Error>, reason: &str) {
        match result {
            Ok(()) => {
                self.metrics.deleted.fetch_add(1, Ordering::Relaxed);
                self.log
                    .with(&[("pod", &pod.id()), ("uid", &pod.uid), ("reason", &reason)])
                    .info("pod deleted");
                event::write(client, pod, reason);
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &Error) {
        self.metrics.failed.fetch_add(1, Ordering::Relaxed);
        self.log.with(&[("error", error)]).warn("pod not repaired");
    }
}

fn evict(client: &mut Client, pod: &Pod) -> Result<(), Error> {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}}});
    let purpose = format!("evict pod {}", pod.id());
    requests::create(client, &format!("{}/eviction", path(pod)), &eviction, &purpose).map(drop)
}

fn path(pod: &Pod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}
