//! What the installer knows of itself, for whoever asks: written by its turns, read by `serve`.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use evergreen_kube::clock;

use crate::{
    cluster::uninstall::evidence::Seen,
    health::{
        report::{Credential, Report},
        serve::Answer,
    },
};

/// Turns that are later than this have stopped.
const ALIVE_WITHIN: Duration = Duration::from_secs(120);

/// Shared by the threads.
#[derive(Debug, Default)]
pub struct Status(Mutex<Facts>);

/// The facts.
#[derive(Debug, Default)]
pub struct Facts {
    /// When the last turn ended.
    last_turn: Option<Instant>,
    turns: u64,
    /// What the last turn found wrong.
    problems: Vec<String>,
    /// The last turn that found each kind of thing wrong, in seconds since 1970.
    last_error: BTreeMap<&'static str, i64>,
    installed: bool,
    /// Files changed after everything had been in place once.
    repairs: BTreeMap<String, u64>,
    was_installed: bool,
    held_back: u64,
    networks: Vec<(String, bool)>,
    credential: Option<Credential>,
    /// What could be lost by an uninstallation.
    pub seen: Seen,
    /// What the API server said to it last.
    pub review: Review,
}

/// What the API server said to the credential.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Review {
    /// It has not been asked yet.
    #[default]
    NotAsked,
    /// It knows us by this name.
    Accepted(String),
    /// It does not, or it could not be asked.
    Refused(String),
}

impl Status {
    /// Takes over what a turn did and found.
    pub fn after_turn(&self, report: &Report, installed: bool) {
        let mut facts = self.facts();
        facts.last_turn = Some(Instant::now());
        facts.turns += 1;
        facts.problems = report
            .problems()
            .map(|p| format!("{}: {}", p.operation, p.text))
            .collect();
        for problem in report.problems() {
            facts.last_error.insert(problem.operation, clock::now());
        }
        if facts.was_installed {
            for file in report.changed_files() {
                *facts.repairs.entry(file.to_owned()).or_default() += 1;
            }
        }
        facts.installed = installed;
        facts.was_installed |= installed;
        facts.held_back += report.held_back();
        facts.networks = report.networks().to_vec();
        facts.credential.clone_from(&report.credential);
    }

    /// What is said to a path.
    pub fn answer(&self, path: &str) -> Option<Answer> {
        Some(match path {
            "/livez" | "/live" if self.facts().is_alive() => Answer::good("ok\n"),
            "/livez" | "/live" => Answer::unavailable("no turn for two minutes\n"),
            "/readyz" | "/ready" => match self.facts().not_ready() {
                why if why.is_empty() => Answer::good("ok\n"),
                why => Answer::unavailable(why.join("\n") + "\n"),
            },
            "/metrics" => Answer::good(self.facts().metrics()),
            _ => return None,
        })
    }

    /// The facts, to look at or to change.
    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        // What a thread that panicked has left is still true.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    /// True while turns happen.
    pub fn is_alive(&self) -> bool {
        self.last_turn.is_none_or(|t| t.elapsed() < ALIVE_WITHIN)
    }

    /// Why we are not ready; empty when we are.
    pub fn not_ready(&self) -> Vec<String> {
        let mut why = self.problems.clone();
        if !self.installed && why.is_empty() {
            why.push("not everything is in place yet".to_owned());
        }
        match &self.review {
            Review::Accepted(_) => {}
            Review::NotAsked => {
                why.push("the API server has not been asked about the node's credential yet".to_owned())
            }
            Review::Refused(cause) => why.push(format!("the node's credential: {cause}")),
        }
        why
    }

    /// All of it for Prometheus (text format 0.0.4).
    pub fn metrics(&self) -> String {
        let mut text = Metrics::default();
        let version = env!("CARGO_PKG_VERSION");
        text.gauge(
            "build_info",
            "Version of this installer",
            [(label("version", version), 1)],
        );
        text.gauge(
            "ready",
            "1 when all is in place",
            [(String::new(), i64::from(self.not_ready().is_empty()))],
        );
        let networks = self
            .networks
            .iter()
            .map(|(file, ours)| (label("file", file), i64::from(*ours)));
        text.gauge(
            "network",
            "Networks we belong in: 1 when our entry is in",
            networks,
        );
        if let Some(credential) = &self.credential {
            let kind = label("kind", credential.kind.word());
            text.gauge("credential", "The node's credential by kind", [(kind, 1)]);
            let until = |ends: i64| [(String::new(), ends.saturating_sub(clock::now()))];
            if let Some(ends) = credential.ends {
                text.gauge(
                    "credential_ends_in_seconds",
                    "Seconds to the end of the node's credential",
                    until(ends),
                );
            }
            if let Some(ends) = credential.ca_ends {
                text.gauge(
                    "ca_ends_in_seconds",
                    "Seconds to the end of the first CA certificate to end",
                    until(ends),
                );
            }
        }
        let accepted = i64::from(matches!(self.review, Review::Accepted(_)));
        text.gauge(
            "credential_accepted",
            "1 when the API server accepted it last",
            [(String::new(), accepted)],
        );
        let errors = self
            .last_error
            .iter()
            .map(|(operation, when)| (label("operation", operation), *when));
        text.gauge(
            "last_error_timestamp_seconds",
            "When each operation failed last",
            errors,
        );
        let repairs = self
            .repairs
            .iter()
            .map(|(file, n)| (label("file", file), signed(*n)));
        text.counter("repairs_total", "Files that were made right again", repairs);
        let held_back = [(String::new(), signed(self.held_back))];
        text.counter(
            "rewrites_held_back_total",
            "Turns that held a conflist's rewrite back",
            held_back,
        );
        text.counter(
            "turns_total",
            "Looks at the node",
            [(String::new(), signed(self.turns))],
        );
        text.0
    }
}

#[derive(Default)]
struct Metrics(String);

impl Metrics {
    fn gauge(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (String, i64)>) {
        self.family(name, "gauge", help, samples);
    }

    fn counter(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (String, i64)>) {
        self.family(name, "counter", help, samples);
    }

    fn family(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, i64)>,
    ) {
        let name = format!("evergreen_install_{name}");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let labels = if labels.is_empty() {
                labels
            } else {
                format!("{{{labels}}}")
            };
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

/// A label with its value quoted as the format has it: a file may have any name, and one that is quoted otherwise would
/// make the whole page unreadable.
fn label(name: &str, value: &str) -> String {
    let value = value
        .replace('\\', r"\\")
        .replace('"', r#"\""#)
        .replace('\n', r"\n");
    format!("{name}=\"{value}\"")
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::node::host::HostPath;

    #[test]
    fn it_is_ready_when_all_is_in_place_and_the_credential_was_accepted() {
        let status = Status::default();
        assert!(!status.facts().not_ready().is_empty());
        status.after_turn(&Report::default(), true);
        assert_eq!(status.facts().not_ready().len(), 1);
        status.facts().review = Review::Accepted("system:serviceaccount:a:b".to_owned());
        assert!(status.facts().not_ready().is_empty());
        let mut report = Report::default();
        report.problem("conflist", "a file");
        status.after_turn(&report, false);
        assert_eq!(status.facts().not_ready(), ["conflist: a file"]);
    }

    #[test]
    fn a_label_is_quoted_as_prometheus_reads_it() {
        assert_eq!(label("file", "/a/ü\t\u{1b}"), "file=\"/a/ü\t\u{1b}\"");
        assert_eq!(label("file", "a\"b\\c\nd"), r#"file="a\"b\\c\nd""#);
    }

    #[test]
    fn repairs_are_counted_by_file_once_all_was_in_place() {
        let status = Status::default();
        let file = HostPath::new(Path::new(""), Path::new("/etc/cni/net.d/10-a.conflist"));
        for _ in 0..3 {
            let mut report = Report::default();
            report.changed("wrote", &file);
            status.after_turn(&report, true);
        }
        let metrics = status.facts().metrics();
        assert!(
            metrics.contains("evergreen_install_repairs_total{file=\"/etc/cni/net.d/10-a.conflist\"} 2\n"),
            "{metrics}"
        );
        assert!(
            metrics
                .contains("# TYPE evergreen_install_turns_total counter\nevergreen_install_turns_total 3\n")
        );
    }
}
