//! What Linkerd's chart runs as its repair controller, by its path in the image: pods of this node that started without
//! rules are deleted, so that their controllers make them anew. Off in that chart unless asked for, and needed only for pods
//! from before the plugin was there: the sandbox of such a pod can get no rules any more, and waits for ever.

mod pods;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::SocketAddr,
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use evergreen_cni::{
    deadline::Deadline,
    kube::{Client, Error, clock},
    log::{Level, Log},
};
use serde_json::json;

use self::pods::Stuck;
use crate::{
    api,
    config::Server,
    serve::{self, Answer},
    settings::Given,
    sys::{self, Signals},
};

/// The name under which this program is started for it.
pub const PROGRAM: &str = "linkerd-cni-repair-controller";
/// How often the node's pods are looked at.
const PERIOD: Duration = Duration::from_secs(10);
/// How long the pods of one controller are left alone after one was deleted, and the longest that grows to: where deleting
/// does not help, it must not go on and on.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// What is counted, for whoever asks.
#[derive(Debug, Default)]
struct Counts {
    deleted: AtomicU64,
    failed: AtomicU64,
    listed: AtomicBool,
}

/// Runs until it is asked to end. Takes the flags and variables of Linkerd's own.
pub fn run(arguments: Vec<OsString>, lookup: impl Fn(&str) -> Option<OsString>) -> Result<()> {
    let flags = Flags::read(arguments)?;
    let log = Log::of(PROGRAM, flags.level);
    let node = lookup("LINKERD_CNI_REPAIR_CONTROLLER_NODE_NAME").and_then(|n| n.into_string().ok());
    let Some(node) = node.filter(|n| !n.is_empty()) else {
        bail!("LINKERD_CNI_REPAIR_CONTROLLER_NODE_NAME is not set: name the node whose pods are looked at");
    };
    let server = Server::from_given(&Given::default().variables(lookup)?)?;
    let mut signals = Signals::take_over().context("take the signals over")?;
    let counts = Arc::new(Counts::default());
    let asked = Arc::clone(&counts);
    serve::start(flags.admin, Arc::new(move |path| asked.answer(path)), log)?;

    let mut paused = Paused::default();
    loop {
        let began = Instant::now();
        if let Err(error) = look(&server, &node, &mut paused, &counts, log) {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            log.warn(format_args!("problem={:?}", error.to_string()));
        }
        while began.elapsed() < PERIOD {
            sys::wait_readable(&[signals.as_fd()], PERIOD.saturating_sub(began.elapsed()))?;
            if signals.came() {
                return Ok(());
            }
        }
    }
}

fn look(server: &Server, node: &str, paused: &mut Paused, counts: &Counts, log: Log) -> Result<(), Error> {
    let mut client = api::as_pod(server, Deadline::after(api::ASKING_TAKES))?;
    // Only what the injector has touched, as the watch cache has it.
    let path = format!(
        "/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&labelSelector=linkerd.io%2Fcontrol-plane-ns&resourceVersion=0"
    );
    let list = client.object(&path, &format!("list the pods of node {node}"))?;
    counts.listed.store(true, Ordering::Relaxed);
    for pod in pods::stuck(&list) {
        let Some(controller) = pod.controller.clone() else {
            log.debug(format_args!(
                "left={}/{} because=no-controller-would-make-it-anew",
                pod.namespace, pod.name
            ));
            continue;
        };
        if !paused.may_delete(&controller) {
            continue;
        }
        match delete(&mut client, &pod) {
            Ok(()) => {
                counts.deleted.fetch_add(1, Ordering::Relaxed);
                log.info(format_args!(
                    "deleted={}/{} uid={} because=started-without-rules",
                    pod.namespace, pod.name, pod.uid
                ));
                tell(&mut client, &pod);
            }
            Err(error) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                log.warn(format_args!("problem={:?}", error.to_string()));
            }
        }
    }
    Ok(())
}

fn delete(client: &mut Client, pod: &Stuck) -> Result<(), Error> {
    let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
    client.delete(
        &path,
        &pod.uid,
        &format!("delete pod {}/{}", pod.namespace, pod.name),
    )
}

/// An Event where a person looks first. Without the right to make one nothing is lost.
fn tell(client: &mut Client, pod: &Stuck) {
    let now = clock::rfc3339(clock::now());
    let event = json!({"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "StartedWithoutRules",
        "metadata": {"generateName": format!("{}.", pod.name), "namespace": pod.namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "message": "the pod's sandbox was made before the CNI plugin was in place; deleted, so that it is made anew",
        "source": {"component": PROGRAM}, "firstTimestamp": now, "lastTimestamp": now, "count": 1});
    let _ = client.create(
        &format!("/api/v1/namespaces/{}/events", pod.namespace),
        &event,
        "write an Event",
    );
}

/// Since when, and for how long, the pods of a controller are left alone.
#[derive(Debug, Default)]
struct Paused(BTreeMap<String, (Instant, Duration)>);

impl Paused {
    fn may_delete(&mut self, controller: &str) -> bool {
        self.0.retain(|_, (since, pause)| since.elapsed() < *pause * 4);
        match self.0.get_mut(controller) {
            Some((since, pause)) if since.elapsed() < *pause => return false,
            Some((since, pause)) => (*since, *pause) = (Instant::now(), (*pause * 2).min(LONGEST_PAUSE)),
            None => {
                self.0
                    .insert(controller.to_owned(), (Instant::now(), FIRST_PAUSE));
            }
        }
        true
    }
}

impl Counts {
    fn answer(&self, path: &str) -> Option<Answer> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Some(match path {
            "/live" | "/livez" => Answer::good("ok\n"),
            "/ready" | "/readyz" if self.listed.load(Ordering::Relaxed) => Answer::good("ok\n"),
            "/ready" | "/readyz" => Answer::unavailable("the node's pods could not be listed yet\n"),
            "/metrics" => Answer::good(format!(
                "# HELP linkerd_cni_repair_controller_deleted_total Pods deleted because they had started without rules\n\
                 # TYPE linkerd_cni_repair_controller_deleted_total counter\n\
                 linkerd_cni_repair_controller_deleted_total {}\n\
                 # HELP linkerd_cni_repair_controller_failed_total Requests to the API server that failed\n\
                 # TYPE linkerd_cni_repair_controller_failed_total counter\n\
                 linkerd_cni_repair_controller_failed_total {}\n",
                count(&self.deleted),
                count(&self.failed)
            )),
            _ => return None,
        })
    }
}

/// The flags of Linkerd's own controller.
#[derive(Debug)]
struct Flags {
    admin: SocketAddr,
    level: Level,
}

impl Flags {
    fn read(arguments: Vec<OsString>) -> Result<Self> {
        use lexopt::Arg::Long;
        let mut flags = Self {
            admin: SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 0], 9990)),
            level: Level::Info,
        };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next()? {
            let Long(name) = argument else {
                return Err(argument.unexpected().into());
            };
            match name {
                "admin-addr" => {
                    let text = parser.value()?.into_string().unwrap_or_default();
                    flags.admin = text
                        .parse()
                        .ok()
                        .with_context(|| format!("--admin-addr is {text:?}: write ADDRESS:PORT"))?;
                }
                // `info`, or a list such as `linkerd_cni_repair_controller=info,warn`: only the word matters here.
                "log-level" => {
                    let text = parser.value()?.into_string().unwrap_or_default();
                    flags.level = if text.contains("debug") || text.contains("trace") {
                        Level::Debug
                    } else {
                        Level::Info
                    };
                }
                // Lines are lines in either.
                "log-format" => drop(parser.value()?),
                other => bail!(
                    "unknown flag --{other}; those of Linkerd's controller are --admin-addr, --log-format, --log-level"
                ),
            }
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_linkerds_chart_are_taken() {
        let flags = |list: &[&str]| Flags::read(list.iter().map(Into::into).collect());
        let given = flags(&[
            "--admin-addr",
            "[::]:9990",
            "--log-format",
            "plain",
            "--log-level",
            "info",
        ])
        .unwrap();
        assert_eq!(given.admin.port(), 9990);
        assert!(flags(&["--admin-addr=0.0.0.0:9990"]).is_ok());
        assert!(flags(&["--admin-addr", "here"]).is_err() && flags(&["--else"]).is_err());
    }

    #[test]
    fn the_pods_of_one_controller_are_not_deleted_again_and_again() {
        let mut paused = Paused::default();
        assert!(paused.may_delete("a") && !paused.may_delete("a"));
        assert!(paused.may_delete("b"));
    }
}
