//! Networks that are links to files elsewhere, as node images make them. What is behind such a link is never written: a file
//! of ours takes the link's place, and the link comes back exactly as it was.
//!
//! `link.<file>` in our directory says where the link led, and what was behind it when our file was made of that.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use anyhow::{Context, Result};

use super::{
    edit::{self, Without},
    lists::{self, Restored},
    network::{Form, Network},
    survey::{self, Candidate, Content, form},
};
use crate::{
    cli::config::Paths,
    health::report::Report,
    node::{
        atomic::{self, Access},
        host::HostPath,
    },
};

const PREFIX: &str = "link.";

/// What is kept of a link.
struct Record {
    /// Where it led, as it was written in it.
    target: PathBuf,
    /// What was there.
    text: Vec<u8>,
}

/// A network behind a link.
struct Behind {
    file: HostPath,
    text: Vec<u8>,
    network: Network,
}

/// Keeps what the link's end needs, before a file takes its place.
pub fn remember(place: &Paths, link: &Candidate, text: &[u8]) -> Result<()> {
    let known = |e| Record::of(place, &link.file).map(|r| r.target).ok_or(e);
    let target = fs::read_link(link.file.here())
        .or_else(known)
        .context("read the link")?;
    // A path holds no NUL, so the first one is where the text begins.
    let record = [target.as_os_str().as_bytes(), b"\0", text].concat();
    atomic::replace(
        record_file(place, &link.file).here(),
        &record,
        Access::Mode(0o600),
    )
    .context("keep the link")
}

/// Puts a link back whose place holds what no runtime can load, or behind which is now what [`anew`] makes nothing of: the
/// turn then goes on as if its owner had just made it. Forgets the links in whose place their owner has put something else.
/// True when something was put back.
pub fn follow(place: &Paths, found: &[Candidate], report: &mut Report) -> bool {
    let mut any = false;
    for (file, record) in records(place) {
        let candidate = found.iter().find(|c| c.file == file);
        match follow_one(place, candidate, &file, &record) {
            Ok(true) => {
                report.changed("put the link back to make its file anew", &file);
                any = true;
            }
            Ok(false) => {}
            Err(error) => report.failed("conflist", &file, &error),
        }
    }
    any
}

fn follow_one(
    place: &Paths,
    candidate: Option<&Candidate>,
    file: &HostPath,
    record: &Record,
) -> Result<bool> {
    let (ours, spoilt) = match candidate.map(|c| &c.content) {
        Some(_) if candidate.is_some_and(Candidate::is_link) => return Ok(false),
        Some(Content::Unusable { settled: false, .. } | Content::Unread { .. } | Content::Hidden { .. }) => {
            return Ok(false);
        }
        Some(Content::Unusable { settled: true, .. }) => (true, true),
        Some(Content::Network { text, network }) => (record.is_ours(text, network, place, file), false),
        None => (lists::is_original(place, file), false),
    };
    if !ours {
        return forget_one(place, file).map(|()| false);
    }
    // What no runtime could load is no better than what there is.
    let now = record.now(file);
    let changed = now.is_some_and(|now| spoilt || (now.text != record.text && !now.can_replace(place)));
    if changed {
        atomic::link(file.here(), &record.target).context("put the link back")?;
    }
    Ok(changed)
}

/// A list in a link's place as it is to be made of what has changed behind the link: without a moment in which the link is
/// back, and with it a list without our entry. None when nothing has changed.
pub fn anew(place: &Paths, candidate: &Candidate) -> Option<Candidate> {
    let record = Record::of(place, &candidate.file).filter(|_| !candidate.is_link())?;
    let now = record.now(&candidate.file)?;
    (now.text != record.text && now.can_replace(place)).then(|| Candidate {
        file: candidate.file.clone(),
        open: candidate.file.clone(),
        behind: Some(now.file),
        content: Content::Network {
            text: now.text,
            network: now.network,
        },
    })
}

/// Puts the link back that a file of ours has taken the place of, also when that file has been spoilt since.
pub fn restore(place: &Paths, candidate: &Candidate, report: &mut Report) -> Result<Restored> {
    let file = &candidate.file;
    let Some(record) = Record::of(place, file) else {
        return Ok(Restored::NotOurs);
    };
    let as_seen = match &candidate.content {
        Content::Network { text, network }
            if !candidate.is_link() && record.is_ours(text, network, place, file) =>
        {
            fs::read(file.here()).is_ok_and(|now| now == *text)
        }
        _ if candidate.is_spoilt() => candidate.still_spoilt(),
        _ => {
            forget_one(place, file)?;
            return Ok(Restored::NotOurs);
        }
    };
    if !as_seen {
        return Ok(Restored::Meanwhile);
    }
    put_back(place, file, report)?;
    forget_one(place, file)?;
    Ok(Restored::Yes)
}

/// Puts the link back that was at a place where nothing is now; false when there was none.
pub fn put_back(place: &Paths, file: &HostPath, report: &mut Report) -> Result<bool> {
    let Some(record) = Record::of(place, file) else {
        return Ok(false);
    };
    atomic::link(file.here(), &record.target).context("put the link back")?;
    report.changed("put the link back", file);
    Ok(true)
}

/// Forgets one link: it is back, or its owner has put something else in its place.
pub fn forget_one(place: &Paths, file: &HostPath) -> Result<()> {
    atomic::remove(record_file(place, file).here()).map(|_| ())
}

/// Forgets the links that are left: somebody has removed what took their place.
pub fn forget(place: &Paths, report: &mut Report) {
    for (file, _) in records(place) {
        if let Err(error) = forget_one(place, &file) {
            report.failed("conflist", &record_file(place, &file), &error);
        }
    }
}

impl Record {
    fn of(place: &Paths, file: &HostPath) -> Option<Self> {
        let kept = fs::read(record_file(place, file).here()).ok()?;
        let end = kept.iter().position(|b| *b == 0)?;
        let (target, text) = kept.split_at(end);
        Some(Self {
            target: OsString::from_vec(target.to_vec()).into(),
            text: text.get(1..)?.to_vec(),
        })
    }

    /// True when a file is what was behind the link, whatever has become of our entry in it; or what is there now, if we
    /// were stopped between the file and this record.
    fn is_ours(&self, text: &[u8], network: &Network, place: &Paths, file: &HostPath) -> bool {
        let without =
            |text: &[u8], network: &Network| match edit::without_entry(text, network, &place.type_name) {
                Without::Unchanged => text.to_vec(),
                Without::Text(left) => left,
                Without::Nothing => Vec::new(),
            };
        let left = without(text, network);
        let was = Network::parse(&self.text, form(file));
        was.is_ok_and(|was| without(&self.text, &was) == left)
            || self
                .now(file)
                .is_some_and(|now| without(&now.text, &now.network) == left)
    }

    /// The network behind the link now.
    fn now(&self, file: &HostPath) -> Option<Behind> {
        let behind = file.beside(&self.target).followed().ok()?;
        match survey::read(behind.here(), form(file))? {
            Content::Network { text, network } => Some(Behind {
                file: behind,
                text,
                network,
            }),
            Content::Unusable { .. } | Content::Unread { .. } | Content::Hidden { .. } => None,
        }
    }
}

impl Behind {
    /// True for a list that our entry would be put into.
    fn can_replace(&self, place: &Paths) -> bool {
        let ours = &place.type_name;
        self.network.form == Form::List && self.network.connects(ours) && !self.network.has(ours)
    }
}

/// Every link that is kept, with the file that it was.
fn records(place: &Paths) -> Vec<(HostPath, Record)> {
    let Ok(entries) = fs::read_dir(place.own_dir.here()) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|e| e.file_name());
    let files = names.filter_map(|name| {
        let name = name.as_bytes().strip_prefix(PREFIX.as_bytes())?;
        Some(place.net_dir.join(OsStr::from_bytes(name)))
    });
    files
        .filter_map(|file| Record::of(place, &file).map(|record| (file, record)))
        .collect()
}

fn record_file(place: &Paths, file: &HostPath) -> HostPath {
    let mut name = OsString::from(PREFIX);
    name.push(file.host().file_name().unwrap_or_default());
    place.own_dir.join(name)
}
