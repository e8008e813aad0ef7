//! The changes a plan consists of, each a sequence of steps on single files. Values only: `apply` carries them out.
//!
//! The order of the steps makes a kill at any moment harmless: between two steps the runtime finds a network, and the next
//! pass finds out where the last one stopped.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    edit::{self, Without},
    network::Network,
    originals::{Behind, Link, Single},
    survey::NetFile,
};
use crate::{cli::config::Paths, host::HostPath};

/// The log message of each change that was made. Dropping an original has none.
pub const UPDATED: &str = "entry updated";
pub const INSERTED: &str = "entry inserted; pods created without it may have no rules: repairController.enabled in Evergreen's \
                            chart finds them";
pub const LIST_MADE: &str = "entry inserted in a list made from a single-plugin file; pods created without it may have no \
                             rules: repairController.enabled in Evergreen's chart finds them";
pub const LIST_REBUILT: &str = "damaged list rebuilt";
pub const LINK_RESTORED: &str = "symlink restored";
pub const SINGLE_RESTORED: &str = "single-plugin file restored";
pub const REMOVED: &str = "entry removed";
pub const NETWORK_REMOVED: &str = "network that held only our entry removed";

/// One change of a network.
#[derive(Debug)]
pub struct Change {
    /// The log message once it is made.
    pub message: Option<&'static str>,
    /// The file to name in the log.
    pub file: HostPath,
    /// How it is made.
    pub steps: Vec<Step>,
}

/// A file's bytes as surveyed. A step that needs them changes nothing once they have changed.
#[derive(Debug)]
pub struct Seen {
    /// The file to compare: the target, where a symlink is replaced.
    pub source: PathBuf,
    /// Its bytes.
    pub text: Vec<u8>,
}

/// One step on one file.
#[derive(Debug)]
pub enum Step {
    /// Writes a file, whatever is there, with the permissions of another one, or for root alone.
    Write(HostPath, Option<PathBuf>, Vec<u8>),
    /// Replaces a file, keeping the permissions of what was seen.
    Replace(HostPath, Seen, Vec<u8>),
    /// Removes a file.
    Remove(HostPath, Seen),
    /// Puts a symlink in place.
    Link(HostPath, PathBuf, Option<Seen>),
    /// Brings back a single-plugin file, as the symlink that it was if there is a target, unless its owner has; then removes
    /// its list. The single-plugin file comes first in the runtime's order, so a network is found at any moment.
    RestoreSingle {
        file: HostPath,
        copy: HostPath,
        link: Option<PathBuf>,
        list: HostPath,
        seen: Seen,
    },
    /// Drops an original.
    Forget(HostPath),
}

impl Change {
    /// Makes a change that is worth a log line.
    pub fn new(message: &'static str, file: &HostPath, steps: Vec<Step>) -> Self {
        Self {
            message: Some(message),
            file: file.clone(),
            steps,
        }
    }

    /// Inserts the entry into a list, or updates it.
    pub fn insert(paths: &Paths, file: &NetFile, seen: &[u8], text: Vec<u8>, had_entry: bool) -> Self {
        let keep = keep_link(paths, file, seen).filter(|_| file.behind.is_some());
        let replace = Step::Replace(file.open.clone(), Seen::new(file.source(), seen), text);
        let message = if had_entry { UPDATED } else { INSERTED };
        Self::new(message, &file.file, keep.into_iter().chain([replace]).collect())
    }

    /// Makes our file in a symlink's place again from what is behind that now. The record comes last: until then it says
    /// that there is something to do.
    pub fn follow(link: &Link, now: &Behind, text: Vec<u8>) -> Self {
        let seen = Seen::new(now.file.here(), &now.text);
        let record = Link::encode(link.target.as_os_str(), &now.text);
        let replace = Step::Replace(link.file.clone(), seen, text);
        let keep = Step::Write(link.record.clone(), None, record);
        Self::new(UPDATED, &link.file, vec![replace, keep])
    }

    /// Replaces a single-plugin file by `list`: copy, list, removal, in this order.
    pub fn make_list(paths: &Paths, file: &NetFile, seen: &[u8], list: &HostPath, text: Vec<u8>) -> Self {
        let source = file.source();
        let access = Some(source.to_path_buf());
        let copy = Single::copy_path(paths, list, &file.file);
        let steps = [
            Step::Write(copy, access.clone(), seen.to_vec()),
            Step::Write(list.clone(), access, text),
            Step::Remove(file.file.clone(), Seen::new(source, seen)),
        ];
        let keep = keep_link(paths, file, seen);
        Self::new(LIST_MADE, list, keep.into_iter().chain(steps).collect())
    }

    /// Puts a symlink back where a file of ours replaced it. Its record goes with the file that was seen there; without one
    /// the same plan replaces the symlink again.
    pub fn restore_link(link: &Link, seen: Option<&Vec<u8>>) -> Self {
        let forget = seen.map(|_| Step::Forget(link.record.clone()));
        let seen = seen.map(|text| Seen::new(link.file.here(), text));
        let restore = Step::Link(link.file.clone(), link.target.clone(), seen);
        let steps = [restore].into_iter().chain(forget).collect();
        Self::new(LINK_RESTORED, &link.file, steps)
    }

    /// Brings a single-plugin file back, also when its list has been damaged: the copy is then all that is left.
    pub fn restore_single(single: &Single, seen: &[u8], link: Option<&Link>) -> Self {
        let restore = Step::RestoreSingle {
            file: single.file.clone(),
            copy: single.copy.clone(),
            link: link.map(|link| link.target.clone()),
            list: single.list.clone(),
            seen: Seen::new(single.list.here(), seen),
        };
        let records = link.map(|link| &link.record).into_iter().chain([&single.copy]);
        let forget = records.map(|record| Step::Forget(record.clone()));
        let steps = [restore].into_iter().chain(forget).collect();
        Self::new(SINGLE_RESTORED, &single.file, steps)
    }

    /// Removes the entry from a network, or a network that holds nothing else; `None` when the entry is not in it.
    pub fn remove_entry(file: &NetFile, text: &[u8], network: &Network, ours: &str) -> Option<Self> {
        let seen = Seen::new(file.source(), text);
        let (message, step) = match edit::without_entry(text, network, ours) {
            Without::Unchanged => return None,
            Without::Text(text) => (REMOVED, Step::Replace(file.open.clone(), seen, text)),
            Without::Nothing => (NETWORK_REMOVED, Step::Remove(file.file.clone(), seen)),
        };
        Some(Self::new(message, &file.file, vec![step]))
    }

    /// Drops an original whose place its owner has filled with something else.
    pub fn forget(record: &HostPath) -> Self {
        Self {
            message: None,
            file: record.clone(),
            steps: vec![Step::Forget(record.clone())],
        }
    }
}

/// Keeps what it takes to restore a symlink that a file is about to replace.
fn keep_link(paths: &Paths, file: &NetFile, text: &[u8]) -> Option<Step> {
    let record = Link::encode(file.link.as_ref()?.as_os_str(), text);
    Some(Step::Write(Link::record_path(paths, &file.file), None, record))
}

impl Seen {
    fn new(source: &Path, text: &[u8]) -> Self {
        Self {
            source: source.to_path_buf(),
            text: text.to_vec(),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<String> = self.steps.iter().map(Step::to_string).collect();
        f.write_str(&steps.join(", then "))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(file, ..) => write!(f, "write {file}"),
            Self::Replace(file, ..) => write!(f, "replace {file}"),
            Self::Remove(file, _) => write!(f, "remove {file}"),
            Self::Link(file, target, _) => write!(f, "link {file} to {}", target.display()),
            Self::RestoreSingle { file, list, .. } => write!(f, "restore {file} and remove {list}"),
            Self::Forget(record) => write!(f, "forget {record}"),
        }
    }
}
