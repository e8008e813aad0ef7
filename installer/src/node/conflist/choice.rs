//! Selects the networks that get our entry.

use std::path::Path;

use super::{
    originals::Originals,
    plan::Plan,
    survey::{Content, NetFile, SETTLED_AFTER},
};
use crate::{
    cli::config::{Config, Networks},
    host::HostPath,
};

/// Returns the indices of the selected files. What is unclear goes into the plan.
pub fn choose(config: &Config, files: &[NetFile], originals: &Originals, plan: &mut Plan) -> Vec<usize> {
    let ours = config.paths.type_name.as_str();
    let mut selected = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let decided = config.networks == Networks::First && !selected.is_empty();
        match &file.content {
            Content::Network { network, .. } => {
                if !decided && network.connects(ours) && is_meant(config, file, originals) {
                    selected.push(index);
                }
            }
            Content::Damaged {
                why, settled: true, ..
            }
            | Content::Unread { why }
                if decided =>
            {
                plan.findings
                    .notice(format_args!("{}: {why}; left alone", file.file));
            }
            Content::Unread { why } => {
                plan.is_uncertain = true;
                plan.findings
                    .problem("conflist", format_args!("{}: {why}", file.file));
            }
            Content::Damaged {
                why, settled: true, ..
            } => {
                plan.is_uncertain = true;
                let file = &file.file;
                plan.findings.problem(
                    "conflist",
                    format_args!("{file}: {why}; the runtime cannot load it either"),
                );
            }
            Content::Hidden { .. } if decided || !is_meant(config, file, originals) => {}
            Content::Hidden { target } => {
                plan.is_uncertain = true;
                plan.is_hidden = true;
                plan.findings.problem("conflist", hidden(config, file, target));
            }
            Content::Damaged { settled: false, .. } => {
                plan.findings.reconcile_in(SETTLED_AFTER);
                plan.is_uncertain = true;
                if !decided {
                    // Once it is complete it may be the first network: none after it must be taken for that.
                    return selected;
                }
            }
        }
    }
    if selected.is_empty() && !plan.is_hidden {
        plan.findings.problem("conflist", no_network(config));
    }
    selected
}

/// False for a network when another one was configured by name.
fn is_meant(config: &Config, file: &NetFile, originals: &Originals) -> bool {
    match &config.networks {
        Networks::Named(name) => {
            let named = config.paths.net_dir.join(name);
            file.file == named
                || originals
                    .single_of(&file.file)
                    .is_some_and(|single| single.file == named)
        }
        Networks::First | Networks::All => true,
    }
}

fn hidden(config: &Config, link: &NetFile, target: &HostPath) -> String {
    format!(
        "{}: a symlink to {target}, which is not visible to the installer; if it leads to a network, the runtime may use \
         one without our entry: mount {} below {} too, or replace the symlink by a plain file; if it leads nowhere, remove it",
        link.file,
        target.host().parent().unwrap_or(Path::new("/")).display(),
        config.prefix.display(),
    )
}

fn no_network(config: &Config) -> String {
    let dir = &config.paths.net_dir;
    match &config.networks {
        Networks::Named(name) => {
            format!("{dir}: no network in {name:?} yet (set by EVERGREEN_CONFLIST); waiting for it")
        }
        _ => format!(
            "{dir}: no network yet; waiting for the cluster's own CNI to write one (is this the directory the runtime reads?)"
        ),
    }
}
