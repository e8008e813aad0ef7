//! `scripts/bench --installer`: what the installer takes while nothing happens, and how soon a rotation is on the host.
//!
//! The release binary runs as the chart runs it, with the probes of the chart and an API server that answers at once.
//! Nothing here is compared with linkerd-cni, whose installer has no such tasks; the promises are bounds.

mod node;
mod print;

use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use self::node::Node;
use crate::{
    measure::quantile,
    promise::Promise,
    stage::{Program, Stage},
};

/// The most CPU time at rest, in percent of one processor.
const IDLE_LIMIT: f64 = 0.05;
/// The most memory that is resident, in MiB.
const RESIDENT_LIMIT: f64 = 6.0;
/// The most a rotation takes in the middle one of many, in milliseconds.
const ROTATION_LIMIT: f64 = 100.0;
/// So many rotations of each kind.
const ROTATIONS: usize = 21;
/// Between two rotations, so that what the last one has set off is over.
const PAUSE: Duration = Duration::from_millis(200);
/// As the chart's readinessProbe says it.
const READY_EVERY: Duration = Duration::from_secs(5);
/// The kubelet's default, which the chart's livenessProbe leaves.
const LIVE_EVERY: Duration = Duration::from_secs(10);

/// What came of it.
pub struct Installer {
    size: u64,
    rest: Rest,
    rotations: Vec<Rotation>,
    /// After all of that, in MiB.
    resident: f64,
    /// The most there has been at a time, in MiB.
    peak: f64,
}

/// A time in which nothing happens on the node.
struct Rest {
    lasted: Duration,
    used: Duration,
    probes: usize,
    turns: f64,
    requests: usize,
    resident: f64,
}

/// From before the kubelet writes its volume anew until the file is on the host, in milliseconds.
struct Rotation {
    of: &'static str,
    took: Vec<f64>,
}

/// Rests for this long, then rotates what can be rotated.
pub fn run(stage: &Stage, installer: &Path, lasts: Duration) -> Result<Installer> {
    let size = fs::metadata(installer)
        .with_context(|| format!("looking at {}", installer.display()))?
        .len();
    let mut node = Node::new(stage.binary(Program::Ours))?;
    node.start(installer, "auto")?;
    let rest = at_rest(&node, stage, lasts).context("at rest")?;
    let mut rotations = vec![
        rotation("token, asked for anew", || {
            let old = node.credential("token");
            node.rotate_token()?;
            node.until("another token is there", |node| {
                ![&b""[..], &old].contains(&&node.credential("token")[..])
            })
        })?,
        rotation("CA bundle", || {
            let bundle = node.rotate_bundle()?;
            node.until("the bundle is there", |node| {
                node.credential("ca.crt") == bundle.as_bytes()
            })
        })?,
    ];
    let (resident, peak) = (memory(&node, "VmRSS")?, memory(&node, "VmHWM")?);
    node.start(installer, "copy")?;
    rotations.push(rotation("token, copied", || {
        let token = node.rotate_token()?;
        node.until("the copy is there", |node| {
            node.credential("token") == token.as_bytes()
        })
    })?);
    Ok(Installer {
        size,
        rest,
        rotations,
        resident,
        peak,
    })
}

/// Asks the probes' questions at their times, and the CPU clock before and after.
fn at_rest(node: &Node, stage: &Stage, lasts: Duration) -> Result<Rest> {
    wait_for_rest(node, stage)?;
    let turns_before = turns(node)?;
    node.api.clear_requests();
    let (start, used_before) = (Instant::now(), used(node, stage)?);
    let mut probes = 0;
    let mut due = [
        ("/readyz", READY_EVERY, READY_EVERY),
        ("/livez", LIVE_EVERY, LIVE_EVERY),
    ];
    loop {
        due.sort_by_key(|(_, at, _)| *at);
        let [(path, at, every), _] = &mut due;
        if *at >= lasts {
            break;
        }
        thread::sleep(at.saturating_sub(start.elapsed()));
        let answer = node.get(path)?;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        probes += 1;
        *at += *every;
    }
    thread::sleep(lasts.saturating_sub(start.elapsed()));
    Ok(Rest {
        used: used(node, stage)?.saturating_sub(used_before),
        lasted: start.elapsed(),
        probes,
        requests: node.api.requests().len(),
        turns: turns(node)? - turns_before,
        resident: memory(node, "VmRSS")?,
    })
}

/// What the start has set off is over when a second uses next to nothing.
fn wait_for_rest(node: &Node, stage: &Stage) -> Result<()> {
    for _ in 0..30 {
        let before = used(node, stage)?;
        thread::sleep(Duration::from_secs(1));
        if used(node, stage)?.saturating_sub(before) < Duration::from_millis(1) {
            return Ok(());
        }
    }
    bail!("it works for 30 s and more after its start")
}

fn rotation(of: &'static str, mut rotate: impl FnMut() -> Result<()>) -> Result<Rotation> {
    let mut took = Vec::new();
    for _ in 0..ROTATIONS {
        let start = Instant::now();
        rotate().with_context(|| format!("rotation of: {of}"))?;
        took.push(start.elapsed().as_secs_f64() * 1000.0);
        thread::sleep(PAUSE);
    }
    Ok(Rotation { of, took })
}

/// CPU time so far, by the clock of the process.
fn used(node: &Node, stage: &Stage) -> Result<Duration> {
    let output = Command::new(&stage.baseline)
        .args(["used", &node.pid()?.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let nanoseconds = text.trim().parse().with_context(|| format!("{output:?}"))?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// A line of /proc/PID/status in MiB.
fn memory(node: &Node, name: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{}/status", node.pid()?))?;
    let kib = number(&text, name).with_context(|| format!("no {name} in {text}"))?;
    Ok(kib / 1024.0)
}

/// Looks that it has taken so far.
fn turns(node: &Node) -> Result<f64> {
    let metrics = node.get("/metrics")?;
    number(&metrics, "evergreen_install_turns_total").with_context(|| format!("no turns in {metrics}"))
}

/// The number behind a name at the beginning of a line.
fn number(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':')
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

impl Installer {
    /// True when none is missed.
    pub fn keeps_its_promises(&self) -> bool {
        self.promises().iter().all(Promise::is_kept)
    }

    fn promises(&self) -> Vec<Promise> {
        let promise = |of: &str, is, at_most| Promise {
            of: of.to_owned(),
            is,
            at_most,
        };
        let mut promises = vec![
            promise("CPU at rest in percent", self.rest.percent(), IDLE_LIMIT),
            promise("resident at rest in MiB", self.rest.resident, RESIDENT_LIMIT),
            promise("resident after rotations in MiB", self.resident, RESIDENT_LIMIT),
        ];
        promises.extend(self.rotations.iter().map(|rotation| {
            promise(
                &format!("rotation in ms, {}", rotation.of),
                rotation.quantile(0.5),
                ROTATION_LIMIT,
            )
        }));
        promises
    }
}

impl Rest {
    fn percent(&self) -> f64 {
        100.0 * self.used.as_secs_f64() / self.lasted.as_secs_f64()
    }
}

impl Rotation {
    fn quantile(&self, share: f64) -> f64 {
        quantile(self.took.iter().copied(), share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_of_the_line_that_begins_so_and_no_other() {
        let status = "Name:\tinstall\nVmHWM:\t    4096 kB\nVmRSS:\t    2048 kB\n";
        assert_eq!(number(status, "VmRSS"), Some(2048.0));
        let metrics = "# TYPE evergreen_install_turns_total counter\nevergreen_install_turns_total 7\n";
        assert_eq!(number(metrics, "evergreen_install_turns_total"), Some(7.0));
        assert_eq!(number(metrics, "evergreen_install_turns"), None);
    }

    #[test]
    fn a_figure_that_was_not_taken_is_a_promise_missed() {
        let rotation = Rotation {
            of: "nothing",
            took: Vec::new(),
        };
        let promise = Promise {
            of: String::new(),
            is: rotation.quantile(0.5),
            at_most: ROTATION_LIMIT,
        };
        assert!(!promise.is_kept());
    }
}
