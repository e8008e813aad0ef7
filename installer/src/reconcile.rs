//! One turn: the node is looked at and made to be what the configuration says. Nothing is remembered of earlier turns but
//! which plugin file has proven to run; a turn that finds everything right changes nothing.

use crate::{
    binary::{self, Proven, Wanted},
    config::{Config, Place},
    conflist, credentials,
    report::Report,
};

/// What turns need besides the node.
#[derive(Debug)]
pub struct Reconciler {
    config: Config,
    files: Vec<Wanted>,
    proven: Proven,
}

/// What a turn came to.
#[derive(Debug)]
pub struct Turn {
    /// What was done and found.
    pub report: Report,
    /// The plugin, its credentials and its entry are all in place.
    pub installed: bool,
}

impl Reconciler {
    /// Made of a checked configuration and of the image's files.
    pub fn new(config: Config) -> anyhow::Result<Self> {
        let files = binary::wanted(&config.place)?;
        Ok(Self {
            config,
            files,
            proven: Proven::default(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Binary, credentials, conflist: each only when what it stands on is there, so that no conflist ever names a plugin
    /// that is missing or cannot work.
    pub fn turn(&mut self) -> Turn {
        let mut report = Report::default();
        let binary = binary::make_it_so(&self.config.place, &self.files, &mut self.proven, &mut report);
        let credentials = credentials::make_it_so(&self.config, &mut report);
        let installed = binary && credentials && conflist::make_it_so(&self.config, &mut report);
        Turn { report, installed }
    }
}

/// Everything goes, in the reverse order. An error with one file never stops the others, but while a conflist still names
/// the plugin, the plugin and its credentials stay: without them no pod of the node could start or end.
pub fn remove(place: &Place) -> Report {
    let mut report = Report::default();
    conflist::take_away(place, &mut report);
    if report.all_well() {
        credentials::take_away(place, &mut report);
        binary::take_away(place, &mut report);
    }
    report
}
