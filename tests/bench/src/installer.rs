//! `scripts/bench --installer`: the cost of the idle installer, and how soon a rotation reaches the host.
//!
//! The release binary runs as the chart runs it, with the chart's probes and an API server that answers at once. The
//! limits are absolute, because linkerd-cni's installer has no comparable tasks.

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
    limit::Limit,
    measure::quantile,
    stage::{Program, Stage},
};

/// Limit of idle CPU time in percent of one processor.
const IDLE_LIMIT: f64 = 0.05;
/// Limit of resident memory in MiB.
const RESIDENT_LIMIT: f64 = 6.0;
/// Limit of a rotation's median duration in milliseconds.
const ROTATION_LIMIT: f64 = 100.0;
/// The number of rotations of each kind.
const ROTATIONS: usize = 21;
/// The pause after a rotation, in which its effects end.
const PAUSE: Duration = Duration::from_millis(200);
/// The period of the chart's readinessProbe.
const READY_EVERY: Duration = Duration::from_secs(5);
/// The default period, which the chart's livenessProbe uses.
const LIVE_EVERY: Duration = Duration::from_secs(10);

/// The measurements of the installer.
pub struct Installer {
    size: u64,
    idle: Idle,
    rotations: Vec<Rotation>,
    /// After all rotations, in MiB.
    resident: f64,
    /// The highest value, in MiB.
    peak: f64,
}

/// A period without changes on the node.
struct Idle {
    lasted: Duration,
    used: Duration,
    probes: usize,
    passes: f64,
    requests: usize,
    resident: f64,
}

/// Milliseconds from before the kubelet's write to the file on the host.
struct Rotation {
    of: &'static str,
    took: Vec<f64>,
}

/// Measures the idle installer for this long, then each kind of rotation.
pub fn run(stage: &Stage, installer: &Path, lasts: Duration) -> Result<Installer> {
    let size = fs::metadata(installer)
        .with_context(|| format!("read the size of {}", installer.display()))?
        .len();
    let mut node = Node::new(stage.binary(Program::Plugin))?;
    node.start(installer, "auto")?;
    let idle = measure_idle(&node, stage, lasts).context("measure the idle installer")?;
    let mut rotations = vec![
        rotation("token, requested", || {
            let old = node.credential("token");
            node.rotate_token()?;
            node.until("a new token is on the host", |node| {
                ![&b""[..], &old].contains(&&node.credential("token")[..])
            })
        })?,
        rotation("CA bundle", || {
            let bundle = node.rotate_bundle()?;
            node.until("the bundle is on the host", |node| {
                node.credential("ca.crt") == bundle.as_bytes()
            })
        })?,
    ];
    let (resident, peak) = (memory(&node, "VmRSS")?, memory(&node, "VmHWM")?);
    node.start(installer, "copy")?;
    rotations.push(rotation("token, copied", || {
        let token = node.rotate_token()?;
        node.until("the copy is on the host", |node| {
            node.credential("token") == token.as_bytes()
        })
    })?);
    Ok(Installer {
        size,
        idle,
        rotations,
        resident,
        peak,
    })
}

/// Sends the probes at their periods and reads the CPU time before and after.
fn measure_idle(node: &Node, stage: &Stage, lasts: Duration) -> Result<Idle> {
    wait_until_idle(node, stage)?;
    let passes_before = passes(node)?;
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
    Ok(Idle {
        used: used(node, stage)?.saturating_sub(used_before),
        lasted: start.elapsed(),
        probes,
        requests: node.api.requests().len(),
        passes: passes(node)? - passes_before,
        resident: memory(node, "VmRSS")?,
    })
}

/// Waits until the work of the start is done: a second without CPU use.
fn wait_until_idle(node: &Node, stage: &Stage) -> Result<()> {
    for _ in 0..30 {
        let before = used(node, stage)?;
        thread::sleep(Duration::from_secs(1));
        if used(node, stage)?.saturating_sub(before) < Duration::from_millis(1) {
            return Ok(());
        }
    }
    bail!("the installer is still busy 30 s after its start")
}

fn rotation(of: &'static str, mut rotate: impl FnMut() -> Result<()>) -> Result<Rotation> {
    let mut took = Vec::new();
    for _ in 0..ROTATIONS {
        let start = Instant::now();
        rotate().with_context(|| format!("rotation of {of}"))?;
        took.push(start.elapsed().as_secs_f64() * 1000.0);
        thread::sleep(PAUSE);
    }
    Ok(Rotation { of, took })
}

/// Reads the CPU time used so far from the process clock.
fn used(node: &Node, stage: &Stage) -> Result<Duration> {
    let output = Command::new(&stage.baseline)
        .args(["used", &node.pid()?.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let nanoseconds = text.trim().parse().with_context(|| format!("{output:?}"))?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Reads a line of /proc/PID/status in MiB.
fn memory(node: &Node, name: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{}/status", node.pid()?))?;
    let kib = number(&text, name).with_context(|| format!("no {name} in {text}"))?;
    Ok(kib / 1024.0)
}

/// Reads the number of reconcile passes so far.
fn passes(node: &Node) -> Result<f64> {
    let metrics = node.get("/metrics")?;
    number(&metrics, "evergreen_install_turns_total")
        .with_context(|| format!("no reconcile passes in {metrics}"))
}

/// Parses the number after a name at the start of a line.
fn number(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':')
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

impl Installer {
    /// Returns whether every limit is met.
    pub fn is_within_limits(&self) -> bool {
        self.limits().iter().all(Limit::is_met)
    }

    fn limits(&self) -> Vec<Limit> {
        let limit = |of: &str, is, at_most| Limit {
            of: of.to_owned(),
            is,
            at_most,
        };
        let mut limits = vec![
            limit("idle CPU in percent", self.idle.percent(), IDLE_LIMIT),
            limit("idle resident memory in MiB", self.idle.resident, RESIDENT_LIMIT),
            limit(
                "resident memory after rotations in MiB",
                self.resident,
                RESIDENT_LIMIT,
            ),
        ];
        limits.extend(self.rotations.iter().map(|rotation| {
            limit(
                &format!("rotation in ms: {}", rotation.of),
                rotation.quantile(0.5),
                ROTATION_LIMIT,
            )
        }));
        limits
    }
}

impl Idle {
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
    fn number_is_read_from_the_exact_line() {
        let status = "Name:\tinstall\nVmHWM:\t    4096 kB\nVmRSS:\t    2048 kB\n";
        assert_eq!(number(status, "VmRSS"), Some(2048.0));
        let metrics = "# TYPE evergreen_install_turns_total counter\nevergreen_install_turns_total 7\n";
        assert_eq!(number(metrics, "evergreen_install_turns_total"), Some(7.0));
        assert_eq!(number(metrics, "evergreen_install_turns"), None);
    }

    #[test]
    fn unmeasured_figure_does_not_meet_its_limit() {
        let rotation = Rotation {
            of: "nothing",
            took: Vec::new(),
        };
        let limit = Limit {
            of: String::new(),
            is: rotation.quantile(0.5),
            at_most: ROTATION_LIMIT,
        };
        assert!(!limit.is_met());
    }
}
