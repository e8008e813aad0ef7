//! Our entry in the network that the runtime uses. Touches the files in the net dir that a runtime loads, and the copies of
//! replaced ones in our own directory.
//!
//! A single-plugin file cannot hold a second plugin. It is replaced by a list, and its own bytes are kept as
//! `<list>.from.<file>` in our directory: that copy also is the mark by which a list of our making is known.

mod edit;
mod scan;
mod survey;

use std::fs;

use anyhow::{Context, Result};

use crate::{
    atomic::{self, Access},
    config::{Config, Networks, Place},
    entry::Entry,
    host::HostPath,
    report::Report,
};
use edit::{Network, Without};
use survey::{Candidate, Content, SETTLED_AFTER};

/// Between the two names of a copy.
const FROM: &str = ".from.";

/// Puts our entry where it belongs and takes it from where it does not. True when it is in every network it belongs in.
pub fn make_it_so(config: &Config, report: &mut Report) -> bool {
    let place = &config.place;
    for leftover in atomic::sweep(place.net_dir.here()) {
        report.changed(
            "removed a leftover",
            &place.net_dir.join(leftover.file_name().unwrap_or_default()),
        );
    }
    let found = match survey::look(&place.net_dir) {
        Ok(found) => found,
        Err(error) => {
            report.failed("conflist", &place.net_dir, &error);
            return false;
        }
    };
    let Choice { wanted, complete } = choose(config, &found, report);
    let mut ours_in = Vec::new();
    for candidate in &wanted {
        match put_in(place, &config.entry, candidate, report) {
            Ok(file) => ours_in.push(file),
            Err(error) => report.failed("conflist", &candidate.file, &error),
        }
    }
    let in_place = !wanted.is_empty() && ours_in.len() == wanted.len();
    // Only when it is sure that ours is where it belongs: a moment with two entries is harmless, one with none is not.
    if complete && in_place {
        for candidate in found
            .iter()
            .filter(|c| !wanted.iter().any(|w| w.file == c.file) && !ours_in.contains(&c.file))
        {
            if let Err(error) = take_out(place, candidate, report) {
                report.failed("conflist", &candidate.file, &error);
            }
        }
    }
    in_place
}

/// Takes our entry out of every file; files that were replaced come back as they were.
pub fn take_away(place: &Place, report: &mut Report) {
    atomic::sweep(place.net_dir.here());
    match survey::look(&place.net_dir) {
        Ok(found) => {
            for candidate in &found {
                if let Err(error) = take_out(place, candidate, report) {
                    report.failed("conflist", &candidate.file, &error);
                }
            }
        }
        Err(error) => report.failed("conflist", &place.net_dir, &error),
    }
    // What is left belongs to lists that somebody else has removed: their network is gone, and stays gone.
    for (copy, _) in copies(place) {
        if let Err(error) = atomic::remove(copy.here()) {
            report.failed("conflist", &copy, &error);
        }
    }
}

/// Which files get our entry, and whether that is the last word.
struct Choice<'a> {
    wanted: Vec<&'a Candidate>,
    complete: bool,
}

fn choose<'a>(config: &Config, found: &'a [Candidate], report: &mut Report) -> Choice<'a> {
    let ours = config.place.type_name.as_str();
    let mut choice = Choice {
        wanted: Vec::new(),
        complete: true,
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
            Content::Unusable { why, settled: true } if decided => {
                report.notice(format_args!("{}: {why}; left alone", candidate.file));
            }
            Content::Unusable { why, settled: true } => {
                choice.complete = false;
                report.problem(
                    "conflist",
                    format_args!("{}: {why}; the runtime cannot load it either", candidate.file),
                );
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
    if choice.wanted.is_empty() {
        report.problem("conflist", no_network(config));
    }
    choice
}

/// False for a network that another was named instead of.
fn named(config: &Config, candidate: &Candidate) -> bool {
    match &config.networks {
        Networks::Named(name) => candidate.file.host().file_name() == Some(name.as_ref()),
        Networks::First | Networks::All => true,
    }
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

/// Returns the file our entry is in now.
fn put_in(place: &Place, entry: &Entry, candidate: &Candidate, report: &mut Report) -> Result<HostPath> {
    let Content::Network { text, network } = &candidate.content else {
        return Ok(candidate.file.clone());
    };
    match network {
        Network::List { plugins } => {
            if let Some(text) = edit::with_entry(text, plugins, entry) {
                atomic::replace(candidate.open.here(), &text, Access::As(candidate.open.here()))?;
                report.changed("put our entry in", &candidate.file);
            }
            Ok(candidate.file.clone())
        }
        Network::Single { plugin } => {
            let list = edit::list_from_single(text, plugin, entry);
            replace_by_list(place, candidate, text, &list).inspect(|file| {
                report.changed("put our entry in a list made from a single plugin", file);
            })
        }
    }
}

/// Copy, list, removal, in this order: at each moment between them the runtime finds a network, and a later run finds out
/// where the work stopped.
fn replace_by_list(place: &Place, single: &Candidate, text: &[u8], list: &[u8]) -> Result<HostPath> {
    let name = file_name(&single.file);
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    let made_by_us = |list: &str| place.own_dir.join(format!("{list}{FROM}{name}")).here().exists();
    let usual = format!("{stem}.conflist");
    // Somebody else's list of that name stays; ours then takes the place in the order that the single file had.
    let usable = made_by_us(&usual) || !place.net_dir.join(&usual).here().exists();
    let list_name = if usable { usual } else { format!("{name}.conflist") };
    let file = place.net_dir.join(&list_name);
    let copy = place.own_dir.join(format!("{list_name}{FROM}{name}"));
    atomic::replace(copy.here(), text, Access::As(single.open.here()))
        .context("keep a copy of the original")?;
    atomic::replace(file.here(), list, Access::As(single.open.here()))?;
    if fs::read(single.open.here()).is_ok_and(|now| now == text) {
        atomic::remove(single.file.here())?;
    }
    Ok(file)
}

fn take_out(place: &Place, candidate: &Candidate, report: &mut Report) -> Result<()> {
    let Content::Network { text, network } = &candidate.content else {
        return Ok(());
    };
    if !network.has(&place.type_name) {
        return Ok(());
    }
    let file = &candidate.file;
    if let Some((copy, original)) = copies(place)
        .into_iter()
        .find(|(c, _)| file_name(c).starts_with(&copy_prefix(file)))
    {
        return restore(place, candidate, &copy, &original, report);
    }
    match edit::without_entry(text, network, &place.type_name) {
        Without::Unchanged => return Ok(()),
        Without::Text(left) => {
            atomic::replace(candidate.open.here(), &left, Access::As(candidate.open.here()))?;
            report.changed("took our entry out of", file);
        }
        Without::Nothing => {
            atomic::remove(file.here())?;
            report.changed("removed a network that was ours alone", file);
        }
    }
    Ok(())
}

/// Brings back the file that a list was made from. Here too the runtime finds a network at each moment: a single file comes
/// before the list of the same name.
fn restore(place: &Place, list: &Candidate, copy: &HostPath, name: &str, report: &mut Report) -> Result<()> {
    let original = place.net_dir.join(name);
    if !original.here().exists() {
        let text = fs::read(copy.here()).context("read the copy of the original")?;
        atomic::replace(original.here(), &text, Access::As(copy.here()))
            .context("bring the original back")?;
        report.changed("brought back", &original);
    }
    atomic::remove(list.file.here())?;
    report.changed("removed the list made from it", &list.file);
    atomic::remove(copy.here())?;
    Ok(())
}

/// The copies in our directory, each with the name of the file it was.
fn copies(place: &Place) -> Vec<(HostPath, String)> {
    let Ok(entries) = fs::read_dir(place.own_dir.here()) else {
        return Vec::new();
    };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    names
        .filter_map(|n| Some((place.own_dir.join(&n), n.split_once(FROM)?.1.to_owned())))
        .collect()
}

fn copy_prefix(list: &HostPath) -> String {
    format!("{}{FROM}", file_name(list))
}

fn file_name(path: &HostPath) -> String {
    path.host()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
