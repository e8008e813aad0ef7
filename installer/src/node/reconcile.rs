//! One turn: the node is looked at and made to be what the configuration says. Nothing is remembered of earlier turns
//! but which plugin file has proven to run and when a conflist was rewritten; a turn that finds everything right changes
//! nothing.

use std::time::Duration;

use anyhow::Result;

use crate::{
    cli::config::{Config, OnTerm, Paths},
    cluster::token::Token,
    node::{
        atomic,
        binary::{self, Proven, Wanted},
        conflist::{self, Backoff},
        credentials,
        ownership::{self, Ownership, Peers, Role, Turn},
        report::Report,
    },
};

/// How soon an installer that has been replaced looks whether the newer one still lives: nobody else tells it.
const REPLACED: Duration = Duration::from_secs(2);

/// What turns need besides the node.
#[derive(Debug)]
pub struct Reconciler {
    config: Config,
    files: Vec<Wanted>,
    proven: Proven,
    backoff: Backoff,
    ownership: Option<Ownership>,
}

/// What a turn came to.
#[derive(Debug)]
pub struct Outcome {
    /// What was done and found.
    pub report: Report,
    /// The plugin, its credentials and its entry are all in place.
    pub installed: bool,
}

impl Reconciler {
    /// Made of a checked configuration and of the image's files. One that stays keeps a record of itself on the node.
    pub fn new(config: Config, stays: bool) -> Result<Self> {
        Ok(Self {
            files: binary::wanted(&config.paths)?,
            config,
            proven: Proven::default(),
            backoff: Backoff::default(),
            ownership: stays.then(Ownership::default),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Binary, credentials, conflist: each only when what it stands on is there, so that no conflist ever names a plugin
    /// that is missing or cannot work.
    pub fn reconcile(&mut self, token: &Token) -> Outcome {
        let mut report = Report::default();
        let paths = &self.config.paths;
        if let Err(error) = ownership::own_directory(&paths.own_dir, &mut report) {
            report.failed("directory", &paths.own_dir, &error);
        }
        let _turn = Turn::begin(&paths.own_dir);
        match self.ownership.as_mut().map(|o| o.standing(paths)) {
            Some(Ok(Role::Theirs(newer))) => {
                report.notice(format_args!(
                    "a newer installer has taken over, and this one leaves everything: {newer}"
                ));
                report.reconcile_in(REPLACED);
                return Outcome {
                    report,
                    installed: false,
                };
            }
            Some(Err(error)) => report.failed("record", &paths.own_dir, &error),
            Some(Ok(Role::Ours)) | None => {}
        }
        sweep(paths, &mut report);
        let binary = binary::ensure(paths, &self.files, &mut self.proven, &mut report);
        let credentials = credentials::ensure(&self.config, token, &mut report);
        let installed =
            binary && credentials && conflist::ensure(&self.config, &mut self.backoff, &mut report);
        Outcome { report, installed }
    }

    /// True when another installer will see to this node once this one has ended, whatever that means for the
    /// installation. An older one that is asked to end at the same time would leave it to us.
    pub fn is_succeeded(&self) -> bool {
        let company = self.ownership.as_ref().map(|o| o.company(&self.config.paths));
        match company {
            Some(Peers::Newer) => true,
            // Told to remove without a look at the DaemonSet: the older one may well be wanted.
            Some(Peers::Older) => self.config.on_term == OnTerm::Remove,
            Some(Peers::None) | None => false,
        }
    }

    /// The end of one that stays, when everything shall be removed; nothing is removed while a newer one works here.
    pub fn remove(&mut self) -> Report {
        let _turn = Turn::begin(&self.config.paths.own_dir);
        let succeeded = self.is_succeeded();
        let paths = &self.config.paths;
        if let Some(ownership) = &mut self.ownership {
            ownership.resign(paths);
            if succeeded {
                let mut report = Report::default();
                report.notice("another installer works on this node, so everything stays");
                return report;
            }
        }
        remove_with_records(paths)
    }

    /// The end of one that stays, when everything shall stay.
    pub fn keep(&mut self) {
        if let Some(ownership) = &mut self.ownership {
            ownership.resign(&self.config.paths);
        }
    }
}

/// A removal by a process of its own.
pub fn uninstall(paths: &Paths) -> Report {
    let _turn = Turn::begin(&paths.own_dir);
    remove_with_records(paths)
}

fn remove_with_records(paths: &Paths) -> Report {
    let mut running = Report::default();
    ownership::remove_all(paths, &mut running);
    running.append(remove(paths));
    running
}

/// Everything goes, in the reverse order. An error with one file never stops the others, but while a conflist still names
/// the plugin, the plugin and its credentials stay: without them no pod of the node could start or end.
fn remove(paths: &Paths) -> Report {
    let mut report = Report::default();
    sweep(paths, &mut report);
    conflist::remove(paths, &mut report);
    if report.is_clean() {
        credentials::take_away(paths, &mut report);
        if !paths.keep_binary {
            binary::take_away(paths, &mut report);
        }
    }
    report
}

/// What installers that died have left half-written goes.
fn sweep(paths: &Paths, report: &mut Report) {
    for dir in [&paths.bin_dir, &paths.net_dir, &paths.own_dir] {
        for leftover in atomic::sweep(dir.here()) {
            report.changed(
                "removed a leftover",
                &dir.join(leftover.file_name().unwrap_or_default()),
            );
        }
    }
}
