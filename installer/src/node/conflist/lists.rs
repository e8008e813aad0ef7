//! Files with a single plugin, which cannot hold a second one, and the lists that take their place.
//!
//! The bytes of such a file are kept as `<list>.from.<file>` in our directory. That copy is also the mark by which a list of
//! our making is known.

use std::fs;

use anyhow::{Context, Result};

use super::{
    edit, links,
    network::{Form, Network},
    survey::{Candidate, Content},
};
use crate::{
    cli::config::{Config, Paths},
    health::report::Report,
    node::{
        atomic::{self, Access},
        host::HostPath,
    },
};

/// Between the two names of a copy.
const FROM: &str = ".from.";

/// Makes a list of ours again that somebody has spoilt. True when something was done.
pub fn mend(config: &Config, found: &[Candidate], report: &mut Report) -> bool {
    let mut done = false;
    for candidate in found {
        match mend_one(config, candidate) {
            Ok(true) => {
                report.changed("made a spoilt list again", &candidate.file);
                done = true;
            }
            Ok(false) => {}
            Err(error) => report.failed("conflist", &candidate.file, &error),
        }
    }
    done
}

fn mend_one(config: &Config, candidate: &Candidate) -> Result<bool> {
    let Content::Unusable { settled: true, .. } = candidate.content else {
        return Ok(false);
    };
    let Some((copy, _)) = copy_of(&config.place, &candidate.file) else {
        return Ok(false);
    };
    let text = fs::read(copy.here()).context("read the copy of the original")?;
    let network = Network::parse(&text, Form::Single);
    let Some(plugin) = network.as_ref().ok().and_then(|n| n.plugins.first()) else {
        return Ok(false);
    };
    let list = edit::list_from_single(&text, plugin, &config.entry);
    atomic::replace(candidate.open.here(), &list, Access::As(copy.here()))?;
    Ok(true)
}

/// Copy, list, removal, in this order: at each moment between them the runtime finds a network, and a later run finds out
/// where the work stopped.
pub fn replace_single(place: &Paths, single: &Candidate, text: &[u8], list: &[u8]) -> Result<HostPath> {
    let name = file_name(&single.file);
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    let made_by_us = |list: &str| place.own_dir.join(format!("{list}{FROM}{name}")).here().exists();
    let usual = format!("{stem}.conflist");
    // Somebody else's list of that name stays; ours then takes the place in the order that the single file had.
    let usable = made_by_us(&usual) || !place.net_dir.join(&usual).here().exists();
    let list_name = if usable { usual } else { format!("{name}.conflist") };
    let file = place.net_dir.join(&list_name);
    let copy = place.own_dir.join(format!("{list_name}{FROM}{name}"));
    atomic::replace(copy.here(), text, Access::As(single.source())).context("keep a copy of the original")?;
    atomic::replace(file.here(), list, Access::As(single.source()))?;
    if fs::read(single.source()).is_ok_and(|now| now == text) {
        atomic::remove(single.file.here())?;
    }
    Ok(file)
}

/// What became of a file that may have been made from another, or from a link.
pub enum Restored {
    /// It was, and that is back.
    Yes,
    /// It is one of somebody else's.
    NotOurs,
    /// Somebody was writing it meanwhile.
    Meanwhile,
}

impl Restored {
    /// False when it is worth another look.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Meanwhile)
    }
}

/// Brings back the file that a list was made from, also when the list has been spoilt since: the copy is then all that is
/// left of that network. Here too the runtime finds a network at each moment: a single file comes before the list of the
/// same name.
pub fn restore(place: &Paths, list: &Candidate, report: &mut Report) -> Result<Restored> {
    let Some((copy, name)) = copy_of(place, &list.file) else {
        return Ok(Restored::NotOurs);
    };
    let text = fs::read(copy.here()).context("read the copy of the original")?;
    let spoilt = list.is_spoilt();
    if !spoilt && !is_made_from(list, &text) {
        // Its owner has written it anew, as a list of its own: what it was once made from is past.
        atomic::remove(copy.here())?;
        return Ok(Restored::NotOurs);
    }
    let original = place.net_dir.join(name);
    let missing = fs::symlink_metadata(original.here()).is_err();
    let was_link = missing && links::put_back(place, &original, report)?;
    if missing && !was_link {
        atomic::replace(original.here(), &text, Access::As(copy.here()))
            .context("bring the original back")?;
    }
    let removed = match list.text() {
        Some(seen) => atomic::remove_seen(list.file.here(), seen)?,
        None => list.still_spoilt() && atomic::remove(list.file.here()).map(|_| true)?,
    };
    if !removed {
        if missing {
            // It would come before the list that is now there.
            atomic::remove(original.here())?;
        }
        return Ok(Restored::Meanwhile);
    }
    if missing && !was_link {
        report.changed("brought back", &original);
    }
    report.changed("removed the list made from it", &list.file);
    links::forget_one(place, &original)?;
    atomic::remove(copy.here())?;
    Ok(Restored::Yes)
}

/// True for a file that a list was made from.
pub fn is_original(place: &Paths, file: &HostPath) -> bool {
    copies(place).iter().any(|(_, name)| *name == file_name(file))
}

/// Forgets the copies that are left. They belong to lists that somebody else has removed: that network is gone, and stays
/// gone.
pub fn forget(place: &Paths, report: &mut Report) {
    for (copy, _) in copies(place) {
        if let Err(error) = atomic::remove(copy.here()) {
            report.failed("conflist", &copy, &error);
        }
    }
}

/// The name of the file that this list was made from.
pub fn original_name(place: &Paths, list: &HostPath) -> Option<String> {
    copy_of(place, list).map(|(_, name)| name)
}

/// True when the list begins with this plugin, whatever the layout.
fn is_made_from(list: &Candidate, original: &[u8]) -> bool {
    let Content::Network { text, network } = &list.content else {
        return false;
    };
    let first = network.plugins.first().and_then(|p| text.get(p.span.clone()));
    let value = |text: &[u8]| serde_json::from_str::<serde_json::Value>(&String::from_utf8_lossy(text)).ok();
    first
        .and_then(value)
        .is_some_and(|first| value(original) == Some(first))
}

/// The copies in our directory, each with the name of the file it was.
fn copies(place: &Paths) -> Vec<(HostPath, String)> {
    let Ok(entries) = fs::read_dir(place.own_dir.here()) else {
        return Vec::new();
    };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    names
        .filter_map(|n| Some((place.own_dir.join(&n), n.split_once(FROM)?.1.to_owned())))
        .collect()
}

/// The copy of what this list was made from.
fn copy_of(place: &Paths, list: &HostPath) -> Option<(HostPath, String)> {
    let prefix = format!("{}{FROM}", file_name(list));
    copies(place)
        .into_iter()
        .find(|(copy, _)| file_name(copy).starts_with(&prefix))
}

fn file_name(path: &HostPath) -> String {
    path.host()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
