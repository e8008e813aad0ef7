//! Our entry in the network that the runtime uses. Touches the files in the net dir that a runtime loads, and the copies of
//! replaced ones in our own directory.
//!
//! [`survey`] looks, [`choice`] decides which files are meant, [`edit`] makes the new text, and this module writes it.

mod choice;
mod edit;
mod links;
mod lists;
mod network;
mod pace;
mod rewrites;
mod survey;

use std::{collections::BTreeSet, thread, time::Duration};

use anyhow::Result;
use evergreen_kube::deadline::Deadline;

use self::{
    choice::Choice,
    edit::Without,
    lists::Restored,
    network::{Form, Network},
    survey::{Candidate, Content},
};
pub use self::{network::Chain, rewrites::Rewrites, survey::is_loaded};
use crate::{
    cli::config::{Config, Paths},
    health::report::Report,
    node::{
        atomic::{self, Identity},
        entry::Entry,
        host::HostPath,
    },
};

/// How soon to look again at a file that somebody has written between our look and our change.
const WRITTEN_MEANWHILE: Duration = Duration::from_millis(10);
/// How long a removal waits for a moment in which nobody writes.
const REMOVAL_WAITS: Duration = Duration::from_secs(3);

/// What is to be known of a list that our entry was not in.
const MADE_BEFORE: &str =
    "; pods made without it may have no rules, and repairController.enabled in Evergreen's chart finds them";

/// Puts our entry where it belongs and takes it from where it does not. True when it is in every network it belongs in.
pub fn ensure(config: &Config, rewrites: &mut Rewrites, report: &mut Report) -> bool {
    let place = &config.place;
    let look = || survey::look(&place.net_dir);
    let found = look().and_then(|found| {
        if lists::mend(config, &found, report) | links::follow(place, &found, report) {
            look()
        } else {
            Ok(found)
        }
    });
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            report.failed("conflist", &place.net_dir, &error);
            return false;
        }
    };
    rewrites::warn_of_cilium(place, report);
    let Choice {
        wanted,
        complete,
        hidden,
    } = choice::choose(config, &found, report);
    let mut ours_in = Vec::new();
    for candidate in &wanted {
        let anew = links::anew(place, candidate);
        let meant = anew.as_ref().unwrap_or(candidate);
        let file = match put_in(place, &config.entry, meant, anew.is_some(), rewrites, report) {
            Ok(file) => file,
            Err(error) => {
                report.failed("conflist", &candidate.file, &error);
                None
            }
        };
        report.network(file.as_ref().unwrap_or(&candidate.file), file.is_some());
        ours_in.extend(file);
    }
    let in_place = !hidden && !wanted.is_empty() && ours_in.len() == wanted.len();
    // Only when it is sure that ours is where it belongs: a moment with two entries is harmless, one with none is not.
    if complete && in_place {
        for candidate in found
            .iter()
            .filter(|c| !wanted.iter().any(|w| w.file == c.file) && !ours_in.contains(&c.file))
        {
            if !taken_out(place, candidate, report) {
                report.look_again_in(WRITTEN_MEANWHILE);
            }
        }
    }
    in_place
}

/// What there is, changing nothing.
#[derive(Debug, Default)]
pub struct Found {
    /// The networks we belong in, and whether our entry is in them as it shall be.
    pub networks: Vec<(HostPath, bool)>,
    /// What keeps us out.
    pub problems: Vec<String>,
    /// What is odd.
    pub notices: Vec<String>,
}

/// Looks without changing anything.
pub fn found(config: &Config) -> Found {
    let mut report = Report::default();
    let mut networks = Vec::new();
    match survey::look(&config.place.net_dir) {
        Ok(found) => {
            rewrites::warn_of_cilium(&config.place, &mut report);
            for candidate in choice::choose(config, &found, &mut report).wanted {
                let is_in = match &candidate.content {
                    Content::Network { text, network } if network.form == Form::List => {
                        edit::with_entry(text, &network.plugins, &config.entry).is_none()
                    }
                    _ => false,
                };
                networks.push((candidate.file.clone(), is_in));
            }
        }
        Err(error) => report.failed("conflist", &config.place.net_dir, &error),
    }
    let problems = report.problems().map(|p| p.text.clone()).collect();
    Found {
        networks,
        problems,
        notices: report.notices().cloned().collect(),
    }
}

/// The names of the networks in the net dir that pods get rules from now, changing nothing.
pub fn programming(place: &Paths) -> Result<BTreeSet<String>> {
    let found = survey::look(&place.net_dir)?;
    let chains = found
        .iter()
        .filter_map(|f| Chain::read(f.text()?, &place.type_name));
    Ok(chains
        .filter(|chain| chain.with_us)
        .map(|chain| chain.name)
        .collect())
}

/// Takes our entry out of every file; files that were replaced come back as they were.
pub fn take_away(place: &Paths, report: &mut Report) {
    let deadline = Deadline::after(REMOVAL_WAITS);
    while !all_taken_out(place, report) {
        if deadline.is_over() {
            report.problem(
                "conflist",
                format_args!(
                    "{}: somebody writes there all the time, so our entry may be in a network still, and the plugin stays: \
                     run `uninstall` again when that is over",
                    place.net_dir
                ),
            );
            break;
        }
        thread::sleep(WRITTEN_MEANWHILE);
    }
    // Where something of ours is left, the removal that follows needs them.
    if report.all_well() {
        lists::forget(place, report);
        links::forget(place, report);
    }
}

/// False when somebody was writing meanwhile: then it is worth another look.
fn all_taken_out(place: &Paths, report: &mut Report) -> bool {
    if !place.net_dir.here().exists() {
        return true;
    }
    match survey::look(&place.net_dir) {
        Ok(found) => {
            let left = found.iter().filter(|c| !taken_out(place, c, report)).count();
            left == 0
        }
        Err(error) => {
            report.failed("conflist", &place.net_dir, &error);
            true
        }
    }
}

/// Returns the file our entry is in now; none when it is not put in for the moment. `anew`: there is one with our entry in
/// its place already.
fn put_in(
    place: &Paths,
    entry: &Entry,
    candidate: &Candidate,
    anew: bool,
    rewrites: &mut Rewrites,
    report: &mut Report,
) -> Result<Option<HostPath>> {
    let Content::Network { text, network } = &candidate.content else {
        return Ok(None);
    };
    let file = &candidate.file;
    if rewrites.is_fight(file) {
        report.notice(format_args!("{file}: {}", rewrites::cause_of_fight(network)));
    }
    let changed = match network {
        Network {
            form: Form::List,
            plugins,
            ..
        } => edit::with_entry(text, plugins, entry),
        Network { plugins, .. } => plugins
            .first()
            .map(|plugin| edit::list_from_single(text, plugin, entry)),
    };
    let Some(changed) = changed else {
        rewrites.lay_ready(&candidate.open, text);
        return Ok(Some(file.clone()));
    };
    if !rewrites.may_write(file, Identity::of(candidate.source()), report) {
        return Ok(None);
    }
    // A single plugin's name is freed for its list, so a link within the directory goes too.
    let goes = candidate.behind.is_some() || network.form == Form::Single;
    if candidate.is_link() && goes && !anew {
        links::remember(place, candidate, text)?;
    }
    if network.form == Form::Single {
        let list = lists::replace_single(place, candidate, text, &changed)?;
        report.changed(
            &format!("put our entry in a list made from a single plugin{MADE_BEFORE}"),
            &list,
        );
        return Ok(Some(list));
    }
    let spare = rewrites.take_spare(&candidate.open);
    if !atomic::replace_seen(candidate.open.here(), candidate.source(), text, &changed, spare)? {
        report.look_again_in(WRITTEN_MEANWHILE);
        return Ok(None);
    }
    if anew {
        links::remember(place, candidate, text)?;
    }
    let was_in = anew || network.has(&place.type_name);
    report.changed(
        &format!("put our entry in{}", if was_in { "" } else { MADE_BEFORE }),
        file,
    );
    Ok(Some(file.clone()))
}

/// False when somebody was writing meanwhile. An error is in the report, and not worth another look.
fn taken_out(place: &Paths, candidate: &Candidate, report: &mut Report) -> bool {
    take_out(place, candidate, report).unwrap_or_else(|error| {
        report.failed("conflist", &candidate.file, &error);
        true
    })
}

fn take_out(place: &Paths, candidate: &Candidate, report: &mut Report) -> Result<bool> {
    match &candidate.content {
        // Whoever is at it may put back what it has read, our entry included.
        Content::Unusable { settled: false, .. } => return Ok(false),
        Content::Unread { why } => {
            report.problem(
                "conflist",
                format_args!(
                    "{}: {why}; our entry may be in it, so the plugin stays",
                    candidate.file
                ),
            );
            return Ok(true);
        }
        Content::Hidden { .. } => return Ok(true),
        Content::Network { .. } | Content::Unusable { settled: true, .. } => {}
    }
    let file = &candidate.file;
    match links::restore(place, candidate, report)? {
        Restored::NotOurs => {}
        restored => return Ok(restored.is_final()),
    }
    match lists::restore(place, candidate, report)? {
        Restored::NotOurs => {}
        restored => return Ok(restored.is_final()),
    }
    let Content::Network { text, network } = &candidate.content else {
        return Ok(true);
    };
    match edit::without_entry(text, network, &place.type_name) {
        Without::Unchanged => {}
        Without::Text(left) => {
            if !atomic::replace_seen(candidate.open.here(), candidate.source(), text, &left, None)? {
                return Ok(false);
            }
            report.changed("took our entry out of", file);
        }
        Without::Nothing => {
            if !atomic::remove_seen(file.here(), text)? {
                return Ok(false);
            }
            report.changed("removed a network that was ours alone", file);
        }
    }
    Ok(true)
}
