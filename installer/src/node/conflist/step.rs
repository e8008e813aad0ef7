//! The changes a plan consists of, each a sequence of steps on single files. Values only: `apply` carries them out.
//!
//! The order of the steps is what makes a kill at any moment harmless: between two steps the runtime finds a network, and
//! the next pass finds out where the last one stopped.

use std::{fmt, path::PathBuf};

use super::{
    edit::{self, Without},
    network::Network,
    originals::{Behind, Link, Single},
    survey::NetFile,
};
use crate::{cli::config::Paths, host::HostPath};

/// What a change achieves, in the words of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The entry is in a network that had an outdated one.
    Update,
    /// The entry is in a network that had none.
    Insert,
    /// The entry is in a list that replaces a single-plugin file.
    MakeList,
    /// A damaged list of ours is made again.
    RebuildList,
    /// A symlink is back.
    RestoreLink,
    /// A single-plugin file is back instead of its list.
    RestoreSingle,
    /// The entry is no longer in a network.
    Remove,
    /// A network is gone that held nothing but our entry.
    RemoveNetwork,
    /// An original is dropped that is no longer needed.
    Forget,
}

/// One change of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What it achieves.
    pub action: Action,
    /// The file to name in the log.
    pub file: HostPath,
    /// How.
    pub steps: Vec<Step>,
}

/// One step on one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Writes a file, whatever is there, with the permissions of `access`; without that one for root alone.
    Write {
        file: HostPath,
        access: Option<PathBuf>,
        text: Vec<u8>,
    },
    /// Replaces a file, with the permissions of `source`, if that still holds `seen`.
    Replace {
        file: HostPath,
        source: PathBuf,
        seen: Vec<u8>,
        text: Vec<u8>,
    },
    /// Removes a file if `source` still holds `seen`.
    Remove {
        file: HostPath,
        source: PathBuf,
        seen: Vec<u8>,
    },
    /// Puts a symlink in place, if the file there still holds `seen`.
    Link {
        file: HostPath,
        target: PathBuf,
        seen: Option<Vec<u8>>,
    },
    /// Brings back `file` from `copy`, or as the symlink that it was, unless its owner has; then removes `list` if that still
    /// holds `seen`. A single-plugin file comes before the list of the same name, so the runtime always finds a network.
    RestoreSingle {
        file: HostPath,
        copy: HostPath,
        text: Vec<u8>,
        link: Option<PathBuf>,
        list: HostPath,
        seen: Vec<u8>,
    },
    /// Removes an original from our own directory.
    Forget { record: HostPath },
}

impl Change {
    /// Inserts the entry into a list, or updates it.
    pub fn insert(paths: &Paths, file: &NetFile, seen: &[u8], text: Vec<u8>, had_entry: bool) -> Self {
        let keep = keep_link(paths, file, seen).filter(|_| file.behind.is_some());
        let replace = Step::Replace {
            file: file.open.clone(),
            source: file.source().to_path_buf(),
            seen: seen.to_vec(),
            text,
        };
        Self {
            action: if had_entry { Action::Update } else { Action::Insert },
            file: file.file.clone(),
            steps: keep.into_iter().chain([replace]).collect(),
        }
    }

    /// Makes our file in a symlink's place again from what is behind that now. The record comes last: until then it says
    /// that there is something to do.
    pub fn follow(link: &Link, now: &Behind, text: Vec<u8>) -> Self {
        Self {
            action: Action::Update,
            file: link.file.clone(),
            steps: vec![
                Step::Replace {
                    file: link.file.clone(),
                    source: now.file.here().to_path_buf(),
                    seen: now.text.clone(),
                    text,
                },
                Step::Write {
                    file: link.record.clone(),
                    access: None,
                    text: Link::encode(link.target.as_os_str(), &now.text),
                },
            ],
        }
    }

    /// Replaces a single-plugin file by `list`: copy, list, removal, in this order.
    pub fn make_list(paths: &Paths, file: &NetFile, seen: &[u8], list: &HostPath, text: Vec<u8>) -> Self {
        let source = file.source().to_path_buf();
        let access = Some(source.clone());
        let mut steps: Vec<Step> = keep_link(paths, file, seen).into_iter().collect();
        steps.extend([
            Step::Write {
                file: Single::copy_path(paths, list, &file.file),
                access: access.clone(),
                text: seen.to_vec(),
            },
            Step::Write {
                file: list.clone(),
                access,
                text,
            },
            Step::Remove {
                file: file.file.clone(),
                source,
                seen: seen.to_vec(),
            },
        ]);
        Self {
            action: Action::MakeList,
            file: list.clone(),
            steps,
        }
    }

    /// Puts a symlink back in the place of our file, which then holds `seen`; `None`: whatever is there.
    pub fn restore_link(link: &Link, seen: Option<Vec<u8>>) -> Self {
        let is_final = seen.is_some();
        let restore = Step::Link {
            file: link.file.clone(),
            target: link.target.clone(),
            seen,
        };
        let forget = is_final.then(|| Step::Forget {
            record: link.record.clone(),
        });
        Self {
            action: Action::RestoreLink,
            file: link.file.clone(),
            steps: [restore].into_iter().chain(forget).collect(),
        }
    }

    /// Brings a single-plugin file back, also when its list has been damaged: the copy is then all that is left.
    pub fn restore_single(single: &Single, text: &[u8], seen: &[u8], link: Option<&Link>) -> Self {
        let restore = Step::RestoreSingle {
            file: single.file.clone(),
            copy: single.copy.clone(),
            text: text.to_vec(),
            link: link.map(|link| link.target.clone()),
            list: single.list.clone(),
            seen: seen.to_vec(),
        };
        let records = link.map(|link| &link.record).into_iter().chain([&single.copy]);
        let forget = records.map(|record| Step::Forget {
            record: record.clone(),
        });
        Self {
            action: Action::RestoreSingle,
            file: single.file.clone(),
            steps: [restore].into_iter().chain(forget).collect(),
        }
    }

    /// Removes the entry from a network, or a network that holds nothing else; `None` when the entry is not in it.
    pub fn remove_entry(file: &NetFile, text: &[u8], network: &Network, ours: &str) -> Option<Self> {
        let (seen, source) = (text.to_vec(), file.source().to_path_buf());
        let (action, step) = match edit::without_entry(text, network, ours) {
            Without::Unchanged => return None,
            Without::Text(text) => {
                let file = file.open.clone();
                (
                    Action::Remove,
                    Step::Replace {
                        file,
                        source,
                        seen,
                        text,
                    },
                )
            }
            Without::Nothing => {
                let file = file.file.clone();
                (Action::RemoveNetwork, Step::Remove { file, source, seen })
            }
        };
        Some(Self {
            action,
            file: file.file.clone(),
            steps: vec![step],
        })
    }

    /// Drops an original whose place its owner has filled with something else.
    pub fn forget(record: &HostPath) -> Self {
        Self {
            action: Action::Forget,
            file: record.clone(),
            steps: vec![Step::Forget {
                record: record.clone(),
            }],
        }
    }
}

/// Keeps what restoring a symlink takes, before a file replaces it.
fn keep_link(paths: &Paths, file: &NetFile, text: &[u8]) -> Option<Step> {
    file.link.as_ref().map(|target| Step::Write {
        file: Link::record_path(paths, &file.file),
        access: None,
        text: Link::encode(target.as_os_str(), text),
    })
}

impl Action {
    /// The log line; `None` for what is not worth one.
    pub fn message(self) -> Option<&'static str> {
        Some(match self {
            Self::Update => "entry updated",
            Self::Insert => {
                "entry inserted; pods created without it may have no rules: repairController.enabled in Evergreen's chart \
                 finds them"
            }
            Self::MakeList => {
                "entry inserted in a list made from a single-plugin file; pods created without it may have no rules: \
                 repairController.enabled in Evergreen's chart finds them"
            }
            Self::RebuildList => "damaged list rebuilt",
            Self::RestoreLink => "symlink restored",
            Self::RestoreSingle => "single-plugin file restored",
            Self::Remove => "entry removed",
            Self::RemoveNetwork => "network that held only our entry removed",
            Self::Forget => return None,
        })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let separator = if index > 0 { ", then " } else { "" };
            write!(f, "{separator}{step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { file, .. } => write!(f, "write {file}"),
            Self::Replace { file, .. } => write!(f, "replace {file}"),
            Self::Remove { file, .. } => write!(f, "remove {file}"),
            Self::Link { file, target, .. } => write!(f, "link {file} to {}", target.display()),
            Self::RestoreSingle { file, list, .. } => write!(f, "restore {file} and remove {list}"),
            Self::Forget { record } => write!(f, "forget {record}"),
        }
    }
}
