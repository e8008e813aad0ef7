//! What a runtime finds in the net dir: the same files, in the same order (libcni: last extension `.conf`, `.conflist` or
//! `.json`, dot-files too, sorted by byte). Only reads.

use std::{
    fs, io,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use evergreen_kube::file;

use super::network::{Form, Network};
use crate::node::host::HostPath;

/// A file that makes no sense and is older than this will not be finished by whoever wrote it.
pub const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// More than any network: what is longer is not read.
const LONGEST: u64 = 32 << 20;

/// A file that a runtime would load.
#[derive(Debug)]
pub struct Candidate {
    /// The name the runtime finds.
    pub file: HostPath,
    /// What is replaced when it is to change: another file when the name is a link within the directory.
    pub open: HostPath,
    /// The file behind it, when the name is a link to elsewhere. That is never written.
    pub behind: Option<HostPath>,
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
    /// Something that cannot be read from here, though a runtime might.
    Unread { why: String },
    /// Nobody here knows: a link to this, which only the node itself can see.
    Hidden { target: HostPath },
}

impl Candidate {
    /// Where its bytes and its permissions are.
    pub fn source(&self) -> &Path {
        self.behind.as_ref().unwrap_or(&self.open).here()
    }

    /// True for a link, wherever it leads.
    pub fn is_link(&self) -> bool {
        self.behind.is_some() || self.open != self.file
    }

    /// True for a file, and no link, that makes no sense and will not be finished.
    pub fn is_spoilt(&self) -> bool {
        fs::symlink_metadata(self.file.here()).is_ok_and(|m| m.is_file())
            && matches!(self.content, Content::Unusable { settled: true, .. })
    }

    /// True when it is so still.
    pub fn still_spoilt(&self) -> bool {
        matches!(
            read(self.file.here(), form(&self.file)),
            Some(Content::Unusable { settled: true, .. })
        )
    }

    /// Its bytes, when they are a network.
    pub fn text(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Network { text, .. } => Some(text),
            Content::Unusable { .. } | Content::Unread { .. } | Content::Hidden { .. } => None,
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
    let is_link = fs::symlink_metadata(file.here()).ok()?.is_symlink();
    let mut candidate = Candidate {
        open: file.clone(),
        file,
        behind: None,
        content: unusable(String::new()),
    };
    if is_link && let Err(error) = candidate.follow(net_dir) {
        candidate.content = unusable(format!("follow the link: {error}"));
        return Some(candidate);
    }
    candidate.content = match read(candidate.source(), form(&candidate.file)) {
        Some(content) => content,
        None if !is_link => return None,
        None => candidate.nowhere(),
    };
    Some(candidate)
}

impl Candidate {
    /// Finds what a link leads to.
    fn follow(&mut self, net_dir: &HostPath) -> io::Result<()> {
        let real = self.file.followed()?;
        match real.host().file_name() {
            Some(name) if real.host().parent() == Some(net_dir.followed()?.host()) => {
                self.open = net_dir.join(name);
            }
            _ => self.behind = Some(real),
        }
        Ok(())
    }

    /// What a link is behind which nothing can be seen: a part of the node that is not mounted here, or nothing.
    fn nowhere(&self) -> Content {
        match &self.behind {
            Some(target) if !target.sees_all() => Content::Hidden {
                target: target.clone(),
            },
            target => unusable(format!(
                "a link that leads nowhere ({})",
                target.as_ref().unwrap_or(&self.open)
            )),
        }
    }
}

fn unusable(why: String) -> Content {
    Content::Unusable { why, settled: true }
}

/// The form that a file's extension promises to the runtime.
pub fn form(file: &HostPath) -> Form {
    if file.host().extension().is_some_and(|e| e == "conflist") {
        Form::List
    } else {
        Form::Single
    }
}

/// None for a file that is not there. The form is that which the name promises to the runtime.
pub fn read(path: &Path, form: Form) -> Option<Content> {
    match file::open(path, 0).and_then(|open| file::read(&open, LONGEST)) {
        Ok((text, found)) => Some(match Network::parse(&text, form) {
            Ok(network) => Content::Network { text, network },
            Err(why) => Content::Unusable {
                why,
                settled: settled(found.modified().ok()),
            },
        }),
        Err(e) => match e.kind() {
            io::ErrorKind::NotFound => None,
            io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => {
                Some(unusable("not a plain file".to_owned()))
            }
            io::ErrorKind::FileTooLarge => Some(Content::Unread {
                why: format!("longer than {} MB", LONGEST >> 20),
            }),
            _ => Some(Content::Unread {
                why: format!("read it: {e}"),
            }),
        },
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
