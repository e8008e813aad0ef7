//! Which networks are meant.

use std::path::Path;

use super::{
    lists,
    survey::{Candidate, Content, SETTLED_AFTER},
};
use crate::{
    cli::config::{Config, Networks},
    health::report::Report,
    node::host::HostPath,
};

/// Which files get our entry, and whether that is the last word.
pub struct Choice<'a> {
    /// These.
    pub wanted: Vec<&'a Candidate>,
    /// True when no file leaves a doubt.
    pub complete: bool,
    /// True when one that is meant cannot be seen from here.
    pub hidden: bool,
}

/// Decides; doubts and a lack of networks go into the report.
pub fn choose<'a>(config: &Config, found: &'a [Candidate], report: &mut Report) -> Choice<'a> {
    let ours = config.place.type_name.as_str();
    let mut choice = Choice {
        wanted: Vec::new(),
        complete: true,
        hidden: false,
    };
    for candidate in found {
        let decided = config.networks == Networks::First && !choice.wanted.is_empty();
        match &candidate.content {
            Content::Network { network, .. }
                if !decided && network.connects(ours) && named(config, candidate) =>
            {
                choice.wanted.push(candidate);
            }
            Content::Network { .. } => {}
            Content::Unusable { why, settled: true } | Content::Unread { why } if decided => {
                report.notice(format_args!("{}: {why}; left alone", candidate.file));
            }
            Content::Unread { why } => {
                choice.complete = false;
                report.problem("conflist", format_args!("{}: {why}", candidate.file));
            }
            Content::Unusable { why, settled: true } => {
                choice.complete = false;
                report.problem(
                    "conflist",
                    format_args!("{}: {why}; the runtime cannot load it either", candidate.file),
                );
            }
            Content::Hidden { .. } if decided || !named(config, candidate) => {}
            Content::Hidden { target } => {
                choice.complete = false;
                choice.hidden = true;
                report.problem("conflist", hidden(config, candidate, target));
            }
            Content::Unusable { settled: false, .. } => {
                // Somebody is writing it: what comes after it in order must not be taken for the first.
                report.look_again_in(SETTLED_AFTER);
                choice.complete = false;
                if !decided {
                    return choice;
                }
            }
        }
    }
    if choice.wanted.is_empty() && !choice.hidden {
        report.problem("conflist", no_network(config));
    }
    choice
}

/// False for a network that another was named instead of.
fn named(config: &Config, candidate: &Candidate) -> bool {
    match &config.networks {
        Networks::Named(name) => {
            let made_from_it =
                || lists::original_name(&config.place, &candidate.file).is_some_and(|n| n == *name);
            candidate.file.host().file_name() == Some(name.as_ref()) || made_from_it()
        }
        Networks::First | Networks::All => true,
    }
}

fn hidden(config: &Config, link: &Candidate, target: &HostPath) -> String {
    format!(
        "{}: a link to {target}, which cannot be seen from here; if it leads to a network, our entry is not in the one that \
         the runtime uses: mount {} below {} too, or put a plain file in the link's place; if it leads nowhere, remove it",
        link.file,
        target.host().parent().unwrap_or(Path::new("/")).display(),
        config.prefix.display(),
    )
}

fn no_network(config: &Config) -> String {
    let dir = &config.place.net_dir;
    match &config.networks {
        Networks::Named(name) => {
            format!("{dir}: no network in {name:?} yet (EVERGREEN_CONFLIST names it); waiting for it")
        }
        _ => format!(
            "{dir}: no network yet; waiting for the cluster's own CNI to write one (is this the directory the runtime reads?)"
        ),
    }
}
