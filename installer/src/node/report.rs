//! The result of a reconcile pass: what it changed on the node and what it could not do; and the log of both.

use std::{collections::BTreeSet, fmt, io, time::Duration};

use evergreen_kube::log::{Entry, Log};

use crate::{cluster::token::Kind, host::HostPath, node::ca};

/// The result of one reconcile pass.
#[derive(Debug, Default)]
pub struct Report {
    /// Each change on the node: action and file.
    changes: Vec<(String, String)>,
    /// Certificates that were added to or removed from the CA bundle.
    certificates: Vec<ca::Change>,
    problems: BTreeSet<Problem>,
    /// What an operator may want to know although everything works.
    notices: BTreeSet<String>,
    again_in: Option<Duration>,
    delayed_rewrites: u64,
    networks: Vec<(String, bool)>,
    /// The credential on the node.
    pub credential: Option<Credential>,
}

/// The credential on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// How its token was made.
    pub kind: Kind,
    /// When the token expires, in seconds since 1970; none when it does not say.
    pub ends: Option<i64>,
    /// When the first certificate of the CA bundle expires.
    pub ca_ends: Option<i64>,
}

/// An operation that failed. The rest of the pass went on, and the next pass tries again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// A fixed word: `binary`, `token`, `conflist`, ...
    pub operation: &'static str,
    /// Path, cause, and what to do about it.
    pub text: String,
}

/// Logs each problem and notice when it appears and when it is over.
#[derive(Debug, Default)]
pub struct ReportLog {
    problems: BTreeSet<Problem>,
    notices: BTreeSet<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.text)
    }
}

impl Report {
    /// Adds a change: the action, and the file.
    pub fn changed(&mut self, action: &str, path: &HostPath) {
        self.changes.push((action.to_owned(), path.to_string()));
    }

    /// Adds changes of the CA bundle.
    pub fn bundle_changed(&mut self, changes: Vec<ca::Change>) {
        self.certificates.extend(changes);
    }

    /// Adds an operation that failed on a file of the node.
    pub fn failed(&mut self, operation: &'static str, path: &HostPath, error: &anyhow::Error) {
        let hint = hint(error).map(|h| format!(" ({h})")).unwrap_or_default();
        self.problem(operation, format_args!("{path}: {error:#}{hint}"));
    }

    /// Adds the result of a removal, which is true when there was something to remove.
    pub fn removed(
        &mut self,
        operation: &'static str,
        action: &str,
        path: &HostPath,
        outcome: anyhow::Result<bool>,
    ) {
        match outcome {
            Ok(true) => self.changed(action, path),
            Ok(false) => {}
            Err(error) => self.failed(operation, path, &error),
        }
    }

    /// Adds a problem.
    pub fn problem(&mut self, operation: &'static str, text: impl fmt::Display) {
        self.problems.insert(Problem {
            operation,
            text: text.to_string(),
        });
    }

    /// Adds a notice.
    pub fn notice(&mut self, text: impl fmt::Display) {
        self.notices.insert(text.to_string());
    }

    /// Asks for another pass this soon.
    pub fn reconcile_in(&mut self, time: Duration) {
        self.again_in = Some(self.again_in.map_or(time, |t| t.min(time)));
    }

    /// Returns when to run the next pass, if sooner than usual.
    pub fn again_in(&self) -> Option<Duration> {
        self.again_in
    }

    /// Adds a file that is not rewritten until this time has passed, because another program keeps changing it.
    pub fn delay_rewrite(&mut self, time: Duration) {
        self.delayed_rewrites += 1;
        self.reconcile_in(time);
    }

    /// Adds a network that the entry belongs in, and whether it is in.
    pub fn network(&mut self, file: &HostPath, present: bool) {
        self.networks.push((file.to_string(), present));
    }

    /// Returns the files that were changed.
    pub fn changed_files(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().map(|(_, file)| file.as_str())
    }

    /// Returns the number of files whose rewrite was delayed.
    pub fn delayed_rewrites(&self) -> u64 {
        self.delayed_rewrites
    }

    /// Returns the networks that the entry belongs in, and whether it is in.
    pub fn networks(&self) -> &[(String, bool)] {
        &self.networks
    }

    /// Returns the operations that failed.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    /// Returns what an operator may want to know.
    pub fn notices(&self) -> impl Iterator<Item = &String> {
        self.notices.iter()
    }

    /// Takes over what another report holds.
    pub fn append(&mut self, other: Self) {
        self.changes.extend(other.changes);
        self.certificates.extend(other.certificates);
        self.problems.extend(other.problems);
        self.notices.extend(other.notices);
        if let Some(time) = other.again_in {
            self.reconcile_in(time);
        }
    }

    /// Returns true if no operation failed.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

impl ReportLog {
    /// Logs what is new in a report.
    pub fn write(&mut self, log: Log, report: &Report) {
        for (action, file) in &report.changes {
            log.with(&[("action", action), ("file", file)])
                .info("file changed");
        }
        for change in &report.certificates {
            log.with(&[
                ("action", &change.action),
                ("subject", &change.subject),
                ("expires", &change.expires),
                ("value", &format_args!("sha256:{}", change.sha256)),
            ])
            .info("CA bundle changed");
        }
        let problem = |problem: &Problem, write: &dyn Fn(Entry<'_>)| {
            write(log.with(&[("operation", &problem.operation), ("error", &problem.text)]));
        };
        for new in report.problems.difference(&self.problems) {
            problem(new, &|entry| entry.warn("operation failed"));
        }
        for old in self.problems.difference(&report.problems) {
            problem(old, &|entry| entry.info("operation recovered"));
        }
        for new in report.notices.difference(&self.notices) {
            log.with(&[("reason", new)]).warn("notice");
        }
        for old in self.notices.difference(&report.notices) {
            log.with(&[("reason", old)]).info("notice is over");
        }
        self.problems.clone_from(&report.problems);
        self.notices.clone_from(&report.notices);
    }
}

/// Returns the usual cause of an error of the operating system on a node, and what to do about it.
fn hint(error: &anyhow::Error) -> Option<&'static str> {
    let error = error.chain().find_map(|e| e.downcast_ref::<io::Error>())?;
    error.raw_os_error()?;
    Some(match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "the directory is mounted read-only: mount it read-write, or name the one the runtime uses"
        }
        io::ErrorKind::PermissionDenied => {
            "not permitted: run as root; where SELinux is enforcing, set `privileged` or label the directory writable"
        }
        io::ErrorKind::NotFound => "it does not exist: is this the node's directory, and is it mounted?",
        io::ErrorKind::NotADirectory => "part of the path is a file: check the directory's name",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the node's disk is full",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::Context;

    use super::*;

    #[test]
    fn failed_operation_names_file_cause_and_cure() {
        let error = Err::<(), _>(io::Error::from_raw_os_error(30))
            .context("create")
            .unwrap_err();
        let mut report = Report::default();
        report.failed(
            "token",
            &HostPath::new(Path::new("/host"), Path::new("/etc/cni/net.d/t")),
            &error,
        );
        let problem = report.problems().next().unwrap();
        assert!(
            problem
                .text
                .starts_with("/etc/cni/net.d/t: create: Read-only file system"),
            "{}",
            problem.text
        );
        assert!(problem.text.contains("mount it read-write"), "{}", problem.text);
    }

    #[test]
    fn soonest_next_pass_wins() {
        let mut report = Report::default();
        assert_eq!(report.again_in(), None);
        report.reconcile_in(Duration::from_secs(1));
        report.reconcile_in(Duration::from_secs(2));
        assert_eq!(report.again_in(), Some(Duration::from_secs(1)));
    }
}
