//! One reading of the net dir and of the originals kept in our own directory, as a value. It finds the files that a runtime
//! loads, in the runtime's order (libcni: last extension `.conf`, `.conflist` or `.json`, dot-files too, sorted by byte).

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use evergreen_kube::file;

use super::{
    network::{Form, Network},
    originals::Originals,
};
use crate::{cli::config::Paths, host::HostPath};

/// After this long without a write, an unusable file is no longer taken for one that is still being written.
pub const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// Larger files are not read; no network comes near it.
const MAX_SIZE: u64 = 32 << 20;
/// The extension that Cilium gives to other networks while it is exclusive.
const RENAMED_BY_CILIUM: &str = "cilium_bak";

/// What is on the node.
#[derive(Debug, Default)]
pub struct Survey {
    /// The files that a runtime loads, in its order.
    pub files: Vec<NetFile>,
    /// What our own directory keeps of replaced files.
    pub originals: Originals,
    /// The networks that Cilium has renamed.
    pub renamed_by_cilium: Vec<HostPath>,
}

/// A file that a runtime would load.
#[derive(Debug)]
pub struct NetFile {
    /// The name the runtime finds.
    pub file: HostPath,
    /// The file to replace: the target, when `file` is a symlink within the directory.
    pub open: HostPath,
    /// The target, when `file` is a symlink out of the directory. It is never written.
    pub behind: Option<HostPath>,
    /// The target as the symlink spells it.
    pub link: Option<PathBuf>,
    /// What is in it.
    pub content: Content,
}

/// What a file holds.
#[derive(Debug)]
pub enum Content {
    /// A network.
    Network { text: Vec<u8>, network: Network },
    /// Something a runtime refuses; `text` when it is a regular file. Not `settled` while it may still be being written.
    Damaged {
        why: String,
        settled: bool,
        text: Option<Vec<u8>>,
    },
    /// Something that cannot be read from here, though a runtime may be able to.
    Unread { why: String },
    /// A symlink to this path, which is not mounted here.
    Hidden { target: HostPath },
}

impl Survey {
    /// Reads both directories.
    pub fn read(paths: &Paths) -> Result<Self> {
        let net_dir = &paths.net_dir;
        let mut survey = Self {
            originals: Originals::read(paths),
            ..Self::default()
        };
        for entry in fs::read_dir(net_dir.here()).context("read the directory")? {
            let entry = entry.context("read the directory")?;
            let file = net_dir.join(entry.file_name());
            if file.host().extension().is_some_and(|e| e == RENAMED_BY_CILIUM) {
                survey.renamed_by_cilium.push(file);
            } else if is_loaded(file.host()) && entry.file_type().is_ok_and(|t| !t.is_dir()) {
                survey.files.extend(NetFile::read(net_dir, file));
            }
        }
        survey.files.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(survey)
    }
}

/// True for the name of a file that a runtime loads.
pub fn is_loaded(name: &Path) -> bool {
    name.extension()
        .is_some_and(|e| e == "conf" || e == "conflist" || e == "json")
}

/// Returns the form that a file's extension promises to the runtime.
pub fn form(file: &HostPath) -> Form {
    if file.host().extension().is_some_and(|e| e == "conflist") {
        Form::List
    } else {
        Form::Single
    }
}

impl NetFile {
    /// Where its bytes and its permissions are.
    pub fn source(&self) -> &Path {
        self.behind.as_ref().unwrap_or(&self.open).here()
    }

    /// The text of a regular file that is damaged and no longer being written.
    pub fn damaged_text(&self) -> Option<&Vec<u8>> {
        match &self.content {
            Content::Damaged {
                settled: true,
                text: Some(text),
                ..
            } if self.link.is_none() => Some(text),
            _ => None,
        }
    }

    /// Returns `None` for a file that has gone since the directory was read.
    fn read(net_dir: &HostPath, file: HostPath) -> Option<Self> {
        let link = match fs::read_link(file.here()) {
            Ok(target) => Some(target),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => None,
        };
        let mut found = Self {
            open: file.clone(),
            file,
            behind: None,
            link,
            content: damaged(String::new()),
        };
        if found.link.is_some()
            && let Err(error) = found.follow(net_dir)
        {
            found.content = damaged(format!("follow the symlink: {error}"));
            return Some(found);
        }
        found.content = match read(found.source(), form(&found.file)) {
            Some(content) => content,
            None if found.link.is_none() => return None,
            None => found.dangling(),
        };
        Some(found)
    }

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

    /// A symlink without a visible target: it points to a part of the node that is not mounted here, or to nothing.
    fn dangling(&self) -> Content {
        match &self.behind {
            Some(target) if !target.sees_all() => Content::Hidden {
                target: target.clone(),
            },
            target => damaged(format!(
                "a dangling symlink ({})",
                target.as_ref().unwrap_or(&self.open)
            )),
        }
    }
}

fn damaged(why: String) -> Content {
    Content::Damaged {
        why,
        settled: true,
        text: None,
    }
}

/// Returns what a file holds; `None` when it does not exist.
pub fn read(path: &Path, form: Form) -> Option<Content> {
    let error = match file::open(path, 0).and_then(|open| file::read(&open, MAX_SIZE)) {
        Ok((text, metadata)) => {
            return Some(match Network::parse(&text, form) {
                Ok(network) => Content::Network { text, network },
                Err(why) => Content::Damaged {
                    why,
                    settled: is_settled(metadata.modified().ok()),
                    text: Some(text),
                },
            });
        }
        Err(error) => error,
    };
    match error.kind() {
        io::ErrorKind::NotFound => None,
        io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => {
            Some(damaged("not a regular file".to_owned()))
        }
        _ => Some(Content::Unread {
            why: format!("read it: {error}"),
        }),
    }
}

/// A time in the future says nothing: the clock was set back.
fn is_settled(modified: Option<SystemTime>) -> bool {
    modified
        .and_then(|t| t.elapsed().ok())
        .is_none_or(|age| age >= SETTLED_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_from_the_future_is_settled() {
        let now = SystemTime::now();
        assert!(
            is_settled(Some(now + Duration::from_secs(3600))),
            "the clock was set back"
        );
        assert!(is_settled(Some(now - Duration::from_secs(2))));
        assert!(is_settled(None), "a filesystem without times");
        assert!(!is_settled(Some(now)));
    }

    #[test]
    fn runtime_loads_files_by_last_extension() {
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
