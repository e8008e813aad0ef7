//! The state of the installer for `/livez`, `/readyz` and `/metrics`: written after each reconcile pass, read by `serve`.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use evergreen_kube::clock;

use crate::{
    cluster::credential_thread::Review,
    health::serve::Answer,
    node::report::{Credential, Report},
};

/// Without a reconcile pass for this long the installer hangs.
const ALIVE_WITHIN: Duration = Duration::from_secs(120);

/// The state, shared by the threads.
#[derive(Debug, Default)]
pub struct Status(Mutex<Facts>);

#[derive(Debug, Default)]
struct Facts {
    /// When the last pass ended.
    last_pass: Option<Instant>,
    passes: u64,
    /// Problems of the last pass.
    problems: Vec<String>,
    /// When each operation failed last, in seconds since 1970.
    last_error: BTreeMap<&'static str, i64>,
    installed: bool,
    was_installed: bool,
    /// Changes of each file after everything had been in place once.
    repairs: BTreeMap<String, u64>,
    delayed_rewrites: u64,
    networks: Vec<(String, bool)>,
    credential: Option<Credential>,
}

impl Status {
    /// Records the result of a reconcile pass.
    pub fn record_pass(&self, report: &Report, installed: bool) {
        let mut facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        facts.last_pass = Some(Instant::now());
        facts.passes += 1;
        facts.problems = report.problems().map(ToString::to_string).collect();
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
        facts.delayed_rewrites += report.delayed_rewrites();
        facts.networks = report.networks().to_vec();
        facts.credential.clone_from(&report.credential);
    }

    /// Returns the answer to a GET of this path, if there is such a path. `review` is the API server's last answer.
    pub fn answer(&self, path: &str, review: &Review) -> Option<Answer> {
        let facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match path {
            "/livez" | "/live" if facts.is_alive() => Answer::ok("ok\n"),
            "/livez" | "/live" => Answer::unavailable("no reconcile pass for two minutes\n"),
            "/readyz" | "/ready" => match facts.not_ready(review) {
                why if why.is_empty() => Answer::ok("ok\n"),
                why => Answer::unavailable(why.join("\n") + "\n"),
            },
            "/metrics" => Answer::ok(facts.metrics(review)),
            _ => return None,
        })
    }
}

impl Facts {
    fn is_alive(&self) -> bool {
        self.last_pass.is_none_or(|t| t.elapsed() < ALIVE_WITHIN)
    }

    /// Returns the reasons why `/readyz` fails; empty when it succeeds.
    fn not_ready(&self, review: &Review) -> Vec<String> {
        let mut why = self.problems.clone();
        if !self.installed && why.is_empty() {
            why.push("not everything is in place yet".to_owned());
        }
        match review {
            Review::Accepted(_) => {}
            Review::Pending => {
                why.push("the API server has not been asked about the node's credential yet".to_owned());
            }
            Review::Rejected(error) => why.push(format!("the node's credential: {error}")),
        }
        why
    }

    /// Returns everything in Prometheus' text format (0.0.4).
    fn metrics(&self, review: &Review) -> String {
        let mut text = Metrics::default();
        let version = env!("CARGO_PKG_VERSION");
        text.gauge(
            "build_info",
            "Version of this installer",
            [(label("version", version), 1)],
        );
        text.gauge(
            "ready",
            "1 when everything is in place and the API server accepts the credential",
            [(String::new(), i64::from(self.not_ready(review).is_empty()))],
        );
        let networks = self.networks.iter();
        text.gauge(
            "network",
            "Networks the entry belongs in: 1 when it is in",
            networks.map(|(file, present)| (label("file", file), i64::from(*present))),
        );
        if let Some(credential) = &self.credential {
            self.credential_metrics(credential, &mut text);
        }
        text.gauge(
            "credential_accepted",
            "1 when the API server accepted the node's credential last time",
            [(String::new(), i64::from(matches!(review, Review::Accepted(_))))],
        );
        let errors = self.last_error.iter();
        text.gauge(
            "last_error_timestamp_seconds",
            "When each operation failed last",
            errors.map(|(operation, when)| (label("operation", operation), *when)),
        );
        let repairs = self.repairs.iter();
        text.counter(
            "repairs_total",
            "Files repaired after everything had been in place once",
            repairs.map(|(file, n)| (label("file", file), signed(*n))),
        );
        text.counter(
            "rewrites_held_back_total",
            "Reconcile passes that delayed rewriting a conflist",
            [(String::new(), signed(self.delayed_rewrites))],
        );
        text.counter(
            "turns_total",
            "Reconcile passes",
            [(String::new(), signed(self.passes))],
        );
        text.0
    }

    fn credential_metrics(&self, credential: &Credential, text: &mut Metrics) {
        let kind = label("kind", credential.kind.word());
        text.gauge("credential", "Kind of the node's credential", [(kind, 1)]);
        let ends = [
            (
                "credential_ends_in_seconds",
                "Seconds until the node's token expires",
                credential.ends,
            ),
            (
                "ca_ends_in_seconds",
                "Seconds until the first certificate of the CA bundle expires",
                credential.ca_ends,
            ),
        ];
        for (name, help, when) in ends {
            if let Some(when) = when {
                text.gauge(name, help, [(String::new(), when.saturating_sub(clock::now()))]);
            }
        }
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

/// Returns a label, quoted as the format requires: one file with an odd name must not make the whole page unreadable.
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
    use crate::host::HostPath;

    fn get(status: &Status, path: &str, review: &Review) -> Answer {
        status.answer(path, review).unwrap()
    }

    #[test]
    fn ready_when_installed_and_credential_accepted() {
        let (status, accepted) = (Status::default(), Review::Accepted("user".to_owned()));
        let ready = |review: &Review| get(&status, "/readyz", review);
        assert_ne!(ready(&accepted), Answer::ok("ok\n"));
        status.record_pass(&Report::default(), true);
        assert_eq!(ready(&accepted), Answer::ok("ok\n"));
        let pending =
            Answer::unavailable("the API server has not been asked about the node's credential yet\n");
        assert_eq!(ready(&Review::Pending), pending);
        let mut report = Report::default();
        report.problem("conflist", "a file");
        status.record_pass(&report, false);
        assert_eq!(ready(&accepted), Answer::unavailable("conflist: a file\n"));
    }

    #[test]
    fn labels_are_quoted_for_prometheus() {
        assert_eq!(label("file", "/a/ü\t\u{1b}"), "file=\"/a/ü\t\u{1b}\"");
        assert_eq!(label("file", "a\"b\\c\nd"), r#"file="a\"b\\c\nd""#);
    }

    #[test]
    fn repairs_are_counted_by_file_after_installation() {
        let status = Status::default();
        let file = HostPath::new(Path::new(""), Path::new("/etc/cni/net.d/10-a.conflist"));
        for _ in 0..3 {
            let mut report = Report::default();
            report.changed("wrote", &file);
            status.record_pass(&report, true);
        }
        let metrics = status.0.lock().unwrap().metrics(&Review::Pending);
        for line in [
            "evergreen_install_repairs_total{file=\"/etc/cni/net.d/10-a.conflist\"} 2\n",
            "# TYPE evergreen_install_turns_total counter\nevergreen_install_turns_total 3\n",
        ] {
            assert!(metrics.contains(line), "{metrics}");
        }
    }
}
