//! One reconcile pass: brings the node to what the configuration says, in the order binary, credentials, conflist. A pass
//! that finds everything in place changes nothing. Between passes only two things are remembered: which plugin file has
//! proven to run, and when a conflist was rewritten.

use std::time::Duration;

use anyhow::Result;

use crate::{
    cli::config::{Config, OnTerm, Paths},
    cluster::token::Token,
    node::{
        atomic,
        binary::{self, ImageFile, Proven},
        conflist::{self, Backoff},
        credentials,
        ownership::{self, Ownership, PassLock, Peers, Role},
        report::Report,
    },
};

/// How soon a replaced installer checks again whether the newer one still lives: no event tells it.
const REPLACED: Duration = Duration::from_secs(2);

/// The state of a series of reconcile passes.
#[derive(Debug)]
pub struct Reconciler {
    config: Config,
    files: Vec<ImageFile>,
    proven: Proven,
    backoff: Backoff,
    /// Only a long-running installer has one.
    ownership: Option<Ownership>,
}

/// The result of a reconcile pass.
#[derive(Debug)]
pub struct Outcome {
    /// What was changed and found.
    pub report: Report,
    /// The plugin, its credentials and its entry are all in place.
    pub installed: bool,
}

impl Reconciler {
    /// Finds the image's files. A long-running installer keeps a record of itself on the node.
    pub fn new(config: Config, is_long_running: bool) -> Result<Self> {
        Ok(Self {
            files: binary::image_files(&config.paths)?,
            config,
            proven: Proven::default(),
            backoff: Backoff::default(),
            ownership: is_long_running.then(Ownership::default),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Runs one pass. Each step requires the earlier ones, so that no conflist ever names a plugin that is missing or cannot
    /// work.
    pub fn reconcile(&mut self, token: &Token) -> Outcome {
        let mut report = Report::default();
        let paths = &self.config.paths;
        if let Err(error) = ownership::own_directory(&paths.own_dir, &mut report) {
            report.failed("directory", &paths.own_dir, &error);
        }
        let _lock = PassLock::acquire(&paths.own_dir);
        match self.ownership.as_mut().map(|o| o.role(paths)) {
            Some(Ok(Role::Replaced(newer))) => {
                report.notice(format_args!(
                    "a newer installer has taken over, so this one changes nothing: {newer}"
                ));
                report.reconcile_in(REPLACED);
                return Outcome {
                    report,
                    installed: false,
                };
            }
            Some(Err(error)) => report.failed("record", &paths.own_dir, &error),
            Some(Ok(Role::Owner)) | None => {}
        }
        sweep(paths, &mut report);
        let binary = binary::ensure(paths, &self.files, &mut self.proven, &mut report);
        let credentials = credentials::ensure(&self.config, token, &mut report);
        let installed =
            binary && credentials && conflist::ensure(&self.config, &mut self.backoff, &mut report);
        Outcome { report, installed }
    }

    /// True when another installer will act on this node once this one has ended. An older one that is asked to end at the
    /// same time would leave the removal to this one.
    pub fn is_succeeded(&self) -> bool {
        match self.ownership.as_ref().map(|o| o.peers(&self.config.paths)) {
            Some(Peers::Newer) => true,
            // Configured to remove without asking for the DaemonSet: the older one may well be wanted.
            Some(Peers::Older) => self.config.on_term == OnTerm::Remove,
            Some(Peers::None) | None => false,
        }
    }

    /// Ends with a removal, unless another installer acts on this node.
    pub fn remove(&mut self) -> Report {
        let _lock = PassLock::acquire(&self.config.paths.own_dir);
        let is_succeeded = self.is_succeeded();
        self.keep();
        if self.ownership.is_some() && is_succeeded {
            let mut report = Report::default();
            report.notice("another installer is running on this node, so nothing is removed");
            return report;
        }
        remove_with_records(&self.config.paths)
    }

    /// Ends and leaves everything in place.
    pub fn keep(&mut self) {
        if let Some(ownership) = &mut self.ownership {
            ownership.release(&self.config.paths);
        }
    }
}

/// Removes everything, as a process of its own.
pub fn uninstall(paths: &Paths) -> Report {
    let _lock = PassLock::acquire(&paths.own_dir);
    remove_with_records(paths)
}

fn remove_with_records(paths: &Paths) -> Report {
    let mut running = Report::default();
    ownership::remove_all(paths, &mut running);
    running.append(remove(paths));
    running
}

/// Removes conflist, credentials, binary, in this order. An error with one file never stops the others, but while a conflist
/// still names the plugin, the plugin and its credentials stay: without them no pod of the node could start or end.
fn remove(paths: &Paths) -> Report {
    let mut report = Report::default();
    sweep(paths, &mut report);
    conflist::remove(paths, &mut report);
    if report.is_clean() {
        credentials::remove(paths, &mut report);
        if !paths.keep_binary {
            binary::remove(paths, &mut report);
        }
    }
    report
}

/// Removes temporary files of installers that were killed.
fn sweep(paths: &Paths, report: &mut Report) {
    for dir in [&paths.bin_dir, &paths.net_dir, &paths.own_dir] {
        for name in atomic::sweep(dir.here()) {
            report.changed("temporary file removed", &dir.join(name));
        }
    }
}
