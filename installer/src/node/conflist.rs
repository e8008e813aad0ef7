//! Our entry in the network that the runtime uses, below `node` because it touches the files in the net dir that a runtime
//! loads, and the originals of replaced ones in our own directory.
//!
//! [`survey`] reads both directories once, [`plan`] computes the changes as a value, [`apply`] carries them out.

mod apply;
mod backoff;
mod choice;
mod edit;
mod network;
mod originals;
mod plan;
mod step;
mod survey;

use std::{collections::BTreeSet, thread, time::Duration};

use anyhow::Result;
use evergreen_kube::deadline::Deadline;

pub use self::{backoff::Backoff, network::Chain, plan::Plan, survey::is_loaded};
use self::{
    originals::Originals,
    plan::WRITTEN_MEANWHILE,
    survey::{Content, Survey},
};
use crate::{
    cli::config::{Config, Paths},
    node::{atomic, report::Report},
};

/// How long a removal waits for a moment in which no other process writes.
const REMOVAL_WAITS: Duration = Duration::from_secs(3);

/// Inserts our entry where it belongs and removes it from all other networks. True when it is in every network it belongs in.
pub fn ensure(config: &Config, backoff: &mut Backoff, report: &mut Report) -> bool {
    apply::install(plan(config), backoff, report)
}

/// Plans what [`ensure`] would do, without changing anything.
pub fn plan(config: &Config) -> Plan {
    match Survey::read(&config.paths) {
        Ok(survey) => Plan::install(config, survey),
        Err(error) => {
            let mut plan = Plan::default();
            plan.findings.failed("conflist", &config.paths.net_dir, &error);
            plan
        }
    }
}

/// Returns the names of the networks whose pods get rules now.
pub fn programming(paths: &Paths) -> Result<BTreeSet<String>> {
    let chains = Survey::read(paths)?
        .files
        .into_iter()
        .filter_map(|file| match file.content {
            Content::Network { text, .. } => Chain::read(&text, &paths.type_name),
            _ => None,
        });
    Ok(chains
        .filter(|chain| chain.with_us)
        .map(|chain| chain.name)
        .collect())
}

/// Removes our entry from every file and restores the originals of replaced files.
pub fn remove(paths: &Paths, report: &mut Report) {
    let deadline = Deadline::after(REMOVAL_WAITS);
    while !is_removed(paths, report) {
        if deadline.is_over() {
            report.problem(
                "conflist",
                format_args!(
                    "{}: another process keeps rewriting the directory; our entry may remain, so the plugin is kept: run \
                     `uninstall` again when that is over",
                    paths.net_dir
                ),
            );
            break;
        }
        thread::sleep(WRITTEN_MEANWHILE);
    }
    // Originals that are left belong to files that others have removed. While anything of ours is left, they are needed.
    if report.is_clean() {
        for record in Originals::read(paths).records() {
            if let Err(error) = atomic::remove(record.here()) {
                report.failed("conflist", record, &error);
            }
        }
    }
}

/// One survey and removal; false when another process was writing.
fn is_removed(paths: &Paths, report: &mut Report) -> bool {
    if !paths.net_dir.here().exists() {
        return true;
    }
    match Survey::read(paths) {
        Ok(survey) => apply::uninstall(Plan::uninstall(paths, &survey), report),
        Err(error) => {
            report.failed("conflist", &paths.net_dir, &error);
            true
        }
    }
}
