//! What a turn did and what it found wrong, in words a person can act on.

use std::{collections::BTreeSet, fmt, io, time::Duration};

use evergreen_kube::log::Log;

use crate::{cluster::token::Kind, node::host::HostPath};

/// What one turn came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Each change made on the node: what was done, with which file.
    changes: Vec<(String, String)>,
    /// What a change consisted of.
    details: Vec<String>,
    /// What is not as it shall be.
    problems: BTreeSet<Problem>,
    /// What a person may want to know and what does not keep us from our work.
    notices: BTreeSet<String>,
    /// When to look again, if sooner than usual.
    look_again: Option<Duration>,
    /// How many files were left alone because they had been rewritten too often.
    held_back: u64,
    /// The networks we belong in, and whether we are in them.
    networks: Vec<(String, bool)>,
    /// The credential on the node.
    pub credential: Option<Credential>,
}

/// The credential on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// How its token was made.
    pub kind: Kind,
    /// When the token ends, in seconds since 1970; none when it does not say.
    pub ends: Option<i64>,
    /// When the first certificate of the CA bundle ends.
    pub ca_ends: Option<i64>,
}

/// Something that could not be done. The rest of the turn went on, and the next turn tries again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// What was being done: a short, fixed word (`binary`, `token`, `conflist`, ...).
    pub operation: &'static str,
    /// Path, cause, and what to do.
    pub text: String,
}

/// Says each problem and notice once, and once more that it is over.
#[derive(Debug, Default)]
pub struct ReportLog {
    said: BTreeSet<String>,
}

impl Report {
    /// Notes a change: what was done, with which file.
    pub fn changed(&mut self, what: &str, path: &HostPath) {
        self.changes.push((what.to_owned(), path.to_string()));
    }

    /// Notes what a change consisted of, as a line for the log.
    pub fn detail(&mut self, line: String) {
        self.details.push(line);
    }

    /// Notes something that could not be done with a file of the node.
    pub fn failed(&mut self, operation: &'static str, path: &HostPath, error: &anyhow::Error) {
        let hint = hint(error).map(|h| format!(" ({h})")).unwrap_or_default();
        self.problem(operation, format_args!("{path}: {error:#}{hint}"));
    }

    /// Notes what became of a removal: true when something was there.
    pub fn removed(
        &mut self,
        operation: &'static str,
        what: &str,
        path: &HostPath,
        outcome: anyhow::Result<bool>,
    ) {
        match outcome {
            Ok(true) => self.changed(what, path),
            Ok(false) => {}
            Err(error) => self.failed(operation, path, &error),
        }
    }

    /// Notes something that is not as it shall be.
    pub fn problem(&mut self, operation: &'static str, text: impl fmt::Display) {
        self.problems.insert(Problem {
            operation,
            text: text.to_string(),
        });
    }

    /// Notes something worth knowing.
    pub fn notice(&mut self, text: impl fmt::Display) {
        self.notices.insert(text.to_string());
    }

    /// Asks for another turn this soon.
    pub fn look_again_in(&mut self, time: Duration) {
        self.look_again = Some(self.look_again.map_or(time, |t| t.min(time)));
    }

    /// When to look again, if sooner than usual.
    pub fn look_again(&self) -> Option<Duration> {
        self.look_again
    }

    /// Notes a file that is left alone for a while, since it was rewritten too often.
    pub fn hold_back(&mut self, time: Duration) {
        self.held_back += 1;
        self.look_again_in(time);
    }

    /// Notes a network we belong in, and whether we are in it.
    pub fn network(&mut self, file: &HostPath, ours_in: bool) {
        self.networks.push((file.to_string(), ours_in));
    }

    /// The files that were changed.
    pub fn changed_files(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().map(|(_, file)| file.as_str())
    }

    /// How many files were held back.
    pub fn held_back(&self) -> u64 {
        self.held_back
    }

    /// The networks we belong in, and whether we are in them.
    pub fn networks(&self) -> &[(String, bool)] {
        &self.networks
    }

    /// What is not as it shall be.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    /// What a person may want to know.
    pub fn notices(&self) -> impl Iterator<Item = &String> {
        self.notices.iter()
    }

    /// Both reports as one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.changes.extend(other.changes);
        self.details.extend(other.details);
        self.problems.extend(other.problems);
        self.notices.extend(other.notices);
        self
    }

    /// True when everything is as it shall be.
    pub fn all_well(&self) -> bool {
        self.problems.is_empty()
    }
}

impl ReportLog {
    /// Logs what is new in a report.
    pub fn say(&mut self, log: Log, report: &Report) {
        for (what, file) in &report.changes {
            log.info(format_args!("change={what:?} file={file}"));
        }
        for line in &report.details {
            log.info(format_args!("{line}"));
        }
        let problems = report
            .problems
            .iter()
            .map(|p| format!("problem={} {}", p.operation, p.text));
        let now: BTreeSet<String> = problems
            .chain(report.notices.iter().map(|n| format!("notice {n}")))
            .collect();
        for line in now.difference(&self.said) {
            log.warn(format_args!("{line}"));
        }
        for line in self.said.difference(&now) {
            log.info(format_args!("over: {line}"));
        }
        self.said = now;
    }
}

/// What the usual causes of an errno on a node are.
fn hint(error: &anyhow::Error) -> Option<&'static str> {
    let errno = error
        .chain()
        .find_map(|e| e.downcast_ref::<io::Error>())?
        .raw_os_error()?;
    Some(match errno {
        libc::EROFS => {
            "the directory is mounted read-only: mount it read-write, or name the one the runtime uses"
        }
        libc::EACCES | libc::EPERM => {
            "not permitted: run as root; where SELinux is enforcing, set `privileged` or label the directory writable"
        }
        libc::ENOENT => "not there: is this the node's directory, and is it mounted?",
        libc::ENOTDIR => "a part of the path is a file: check the directory's name",
        libc::ENOSPC | libc::EDQUOT => "the node's disk is full",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::Context;

    use super::*;

    #[test]
    fn an_error_of_a_file_names_it_its_cause_and_what_to_do() {
        let error = Err::<(), _>(io::Error::from_raw_os_error(libc::EROFS))
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
    fn the_sooner_look_wins() {
        let mut report = Report::default();
        assert_eq!(report.look_again(), None);
        report.look_again_in(Duration::from_secs(1));
        report.look_again_in(Duration::from_secs(2));
        assert_eq!(report.look_again(), Some(Duration::from_secs(1)));
    }
}
