//! What is done with a pod that has no rules: it goes, if a controller will make another, and an Event says why.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use evergreen_kube::{Class, Client, Error, deadline::Deadline, log::Log};
use serde_json::json;

use super::{counts::Counts, event, pace::Paused, pods::Pod};
use crate::{
    cli::config::Server,
    cluster::{api, requests},
};

/// What an eviction and its Event may take. Where a PodDisruptionBudget says no, the client would ask for as long as it has
/// time; a client for all pods would have none left for those that follow.
const EVICTING_TAKES: Duration = Duration::from_secs(2);

const BEFORE_THE_PLUGIN: &str =
    "the pod's sandbox was made before the CNI plugin was in place; deleted, so that it is made anew";
const WITHOUT_ENTRY: &str = "the pod runs without rules, past its proxy: its sandbox was made by a CNI list without our entry; evicted, so that \
     it is made anew";
const OF_A_JOB: &str = "the pod runs without rules, past its proxy: its sandbox was made by a CNI list without our entry; it is a Job's, whose work \
     would be lost and which may fail for it, so it stays: delete it if it shall be made anew";
const BARE: &str = "the pod runs without rules, past its proxy: its sandbox was made by a CNI list without our entry; no controller \
     would make it anew, so it stays: delete it and make it again";

/// Deletes, evicts, and tells.
pub struct Evictor {
    server: Server,
    paused: Paused,
    /// Pods that stay, and that somebody has been told of.
    told: BTreeSet<String>,
    counts: Arc<Counts>,
    log: Log,
}

impl Evictor {
    /// Nothing has been done yet.
    pub fn new(server: &Server, counts: &Arc<Counts>, log: Log) -> Self {
        Self {
            server: server.clone(),
            paused: Paused::default(),
            told: BTreeSet::new(),
            counts: Arc::clone(counts),
            log,
        }
    }

    /// For a pod that cannot start: its validator has found no redirection.
    pub fn delete(&mut self, client: &mut Client, pod: &Pod) {
        let Some(controller) = &pod.controller else {
            self.log.debug(format_args!(
                "left={}/{} because=no-controller-would-make-it-anew",
                pod.namespace, pod.name
            ));
            return;
        };
        if self.paused.may_delete(controller) {
            let done = requests::delete(
                client,
                &path(pod),
                &pod.uid,
                &format!("delete pod {}/{}", pod.namespace, pod.name),
            );
            self.account_for(client, pod, done, "started-without-rules", BEFORE_THE_PLUGIN);
        }
    }

    /// For a pod that runs, and may serve somebody: its PodDisruptionBudget has a say.
    pub fn evict(&mut self, pod: &Pod) {
        match api::as_pod(&self.server, Deadline::after(EVICTING_TAKES)) {
            Ok(mut client) => self.evict_by(&mut client, pod),
            Err(error) => self.failed(&error),
        }
    }

    fn evict_by(&mut self, client: &mut Client, pod: &Pod) {
        let controller = match &pod.controller {
            Some(_) if pod.is_of_job => return self.tell(client, pod, "work-would-be-lost", OF_A_JOB),
            None => return self.tell(client, pod, "no-controller-would-make-it-anew", BARE),
            Some(controller) => controller,
        };
        if !self.paused.may_delete(controller) {
            return;
        }
        match evict(client, pod) {
            Err(error) if error.class == Class::TooManyRequests => {
                self.paused.not_done(controller);
                self.log.info(format_args!(
                    "left={}/{} because={:?}",
                    pod.namespace,
                    pod.name,
                    error.to_string()
                ));
            }
            done => self.account_for(client, pod, done, "runs-without-rules", WITHOUT_ENTRY),
        }
    }

    /// Once, for a pod that stays.
    fn tell(&mut self, client: &mut Client, pod: &Pod, because: &str, message: &str) {
        if !self.told.contains(&pod.uid) && event::write(client, pod, message) {
            self.told.insert(pod.uid.clone());
            self.log.warn(format_args!(
                "left={}/{} uid={} because={because} {message}",
                pod.namespace, pod.name, pod.uid
            ));
        }
    }

    /// Pods that are no longer there need not be remembered.
    pub fn forget_all_but(&mut self, pods: &[Pod]) {
        self.told.retain(|uid| pods.iter().any(|pod| pod.uid == *uid));
    }

    fn account_for(
        &self,
        client: &mut Client,
        pod: &Pod,
        done: Result<(), Error>,
        because: &str,
        message: &str,
    ) {
        match done {
            Ok(()) => {
                self.counts.deleted.fetch_add(1, Ordering::Relaxed);
                self.log.info(format_args!(
                    "deleted={}/{} uid={} because={because}",
                    pod.namespace, pod.name, pod.uid
                ));
                event::write(client, pod, message);
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &Error) {
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        self.log.warn(format_args!("problem={:?}", error.to_string()));
    }
}

fn evict(client: &mut Client, pod: &Pod) -> Result<(), Error> {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}}});
    let purpose = format!("evict pod {}/{}", pod.namespace, pod.name);
    requests::create(client, &format!("{}/eviction", path(pod)), &eviction, &purpose).map(drop)
}

fn path(pod: &Pod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}
