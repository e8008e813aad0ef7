//! What a runtime finds in the net dir: the same files, in the same order (libcni: last extension `.conf`, `.conflist` or
//! `.json`, dot-files too, sorted by byte). Only reads.

use std::{
    fs,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};

use super::edit::Network;
use crate::{atomic, host::HostPath};

/// A file that makes no sense and is older than this will not be finished by whoever wrote it.
pub const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// More than any network: what is longer is not read.
const LONGEST: u64 = 32 << 20;

/// A file that a runtime would load.
#[derive(Debug)]
pub struct Candidate {
    /// The name the runtime finds.
    pub file: HostPath,
    /// The file behind it: another one when the name is a link within the directory.
    pub open: HostPath,
    /// What is in it.
    pub content: Content,
}

/// What is in it.
#[derive(Debug)]
pub enum Content {
    /// A network.
    Network { text: Vec<u8>, network: Network },
    /// Something a runtime would refuse, and whether it has been so for a while.
    Unusable { why: String, settled: bool },
}

impl Candidate {
    /// Its bytes, when they are a network.
    pub fn text(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Network { text, .. } => Some(text),
            Content::Unusable { .. } => None,
        }
    }
}

/// Every such file.
pub fn look(net_dir: &HostPath) -> Result<Vec<Candidate>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(net_dir.here()).context("read the directory")? {
        let entry = entry.context("read the directory")?;
        let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
        if !is_dir && is_loaded(Path::new(&entry.file_name())) {
            names.push(entry.file_name());
        }
    }
    names.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    Ok(names
        .into_iter()
        .filter_map(|name| candidate(net_dir, net_dir.join(name)))
        .collect())
}

/// True for the name of a file that a runtime loads.
pub fn is_loaded(name: &Path) -> bool {
    matches!(
        name.extension().map(OsStrExt::as_bytes),
        Some(b"conf" | b"conflist" | b"json")
    )
}

/// None for a file that is gone by now.
fn candidate(net_dir: &HostPath, file: HostPath) -> Option<Candidate> {
    let (open, content) = match behind(net_dir, &file) {
        Ok(Some(open)) => {
            let content = read(&open, file.host())?;
            (open, content)
        }
        Ok(None) => {
            let why =
                "a link to outside of the directory, which cannot be replaced from here: write a plain file";
            (
                file.clone(),
                Content::Unusable {
                    why: why.to_owned(),
                    settled: true,
                },
            )
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound && !file.here().is_symlink() => return None,
        Err(e) => (
            file.clone(),
            Content::Unusable {
                why: format!("follow the link: {e}"),
                settled: true,
            },
        ),
    };
    Some(Candidate { file, open, content })
}

/// The file to replace when this one is to change; None when it lies elsewhere.
fn behind(net_dir: &HostPath, file: &HostPath) -> io::Result<Option<HostPath>> {
    if !fs::symlink_metadata(file.here())?.is_symlink() {
        return Ok(Some(file.clone()));
    }
    let (real, dir): (PathBuf, PathBuf) = (fs::canonicalize(file.here())?, fs::canonicalize(net_dir.here())?);
    Ok(if real.parent() == Some(&dir) {
        real.file_name().map(|name| net_dir.join(name))
    } else {
        None
    })
}

/// The form is that which the name promises to the runtime.
fn read(file: &HostPath, name: &Path) -> Option<Content> {
    let single = name.extension().is_none_or(|e| e != "conflist");
    let mut text = Vec::new();
    let read = (|| -> io::Result<Option<SystemTime>> {
        let open = atomic::open_at_once(file.here())?;
        let found = open.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("not a plain file"));
        }
        open.take(LONGEST).read_to_end(&mut text)?;
        Ok(found.modified().ok())
    })();
    match read {
        Ok(_) if text.len() as u64 >= LONGEST => Some(Content::Unusable {
            why: format!("longer than {} MB", LONGEST >> 20),
            settled: true,
        }),
        Ok(changed) => Some(match Network::read(&text, single) {
            Ok(network) => Content::Network { text, network },
            Err(why) => Content::Unusable {
                why,
                settled: settled(changed),
            },
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => Some(Content::Unusable {
            why: format!("read it: {e}"),
            settled: true,
        }),
    }
}

/// A time in the future says nothing: the clock was set back.
fn settled(changed: Option<SystemTime>) -> bool {
    changed
        .and_then(|t| t.elapsed().ok())
        .is_none_or(|age| age >= SETTLED_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_from_the_future_is_settled() {
        let now = SystemTime::now();
        assert!(
            settled(Some(now + Duration::from_secs(3600))),
            "the clock was set back"
        );
        assert!(settled(Some(now - Duration::from_secs(2))));
        assert!(settled(None), "a filesystem without times");
        assert!(!settled(Some(now)));
    }

    #[test]
    fn the_files_a_runtime_loads_are_known_by_their_last_extension() {
        for (name, wanted) in [
            ("10-a.conf", true),
            ("10-a.conflist", true),
            ("10-a.json", true),
            (".a.conflist", true),
            ("a.conflist.tmp", false),
            ("a.conf.disabled", false),
            ("a.CONF", false),
            ("conflist", false),
            (".conflist", false),
        ] {
            assert_eq!(is_loaded(Path::new(name)), wanted, "{name}");
        }
    }
}
