//! The originals of files that ours have replaced, kept in our own directory until they are restored:
//!
//! - `<list>.from.<file>` holds the bytes of a single-plugin file. It also marks the list as made by us.
//! - `link.<file>` holds the target of a symlink, a NUL, and the text behind it when our file was made from that.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use super::{
    edit::{self, Without},
    network::{Form, Network},
    survey::{self, Content, NetFile, form},
};
use crate::{cli::config::Paths, host::HostPath};

const FROM: &str = ".from.";
const LINK_PREFIX: &str = "link.";

/// All originals on the node.
#[derive(Debug, Default)]
pub struct Originals {
    /// Single-plugin files.
    pub singles: Vec<Single>,
    /// Symlinks.
    pub links: Vec<Link>,
}

/// A single-plugin file that a list has replaced.
#[derive(Debug)]
pub struct Single {
    /// Its bytes are kept here.
    pub copy: HostPath,
    /// The list in the net dir.
    pub list: HostPath,
    /// Its own name in the net dir.
    pub file: HostPath,
    /// The bytes, or why they cannot be read.
    pub text: Result<Vec<u8>, String>,
}

/// A symlink that a file of ours has replaced.
#[derive(Debug)]
pub struct Link {
    /// Where it is kept.
    pub record: HostPath,
    /// Its place in the net dir.
    pub file: HostPath,
    /// The target as the symlink spelled it.
    pub target: PathBuf,
    /// The text behind it that our file was made from.
    text: Vec<u8>,
    /// The network behind it now.
    pub now: Option<Behind>,
}

/// A network behind a symlink.
#[derive(Debug)]
pub struct Behind {
    /// Its file.
    pub file: HostPath,
    /// Its bytes.
    pub text: Vec<u8>,
    /// The same, parsed.
    pub network: Network,
}

impl Originals {
    /// Reads our own directory; one that does not exist holds none.
    pub fn read(paths: &Paths) -> Self {
        let mut found = Self::default();
        let entries = fs::read_dir(paths.own_dir.here()).into_iter().flatten().flatten();
        for name in entries.map(|entry| entry.file_name()) {
            if let Some(file) = name.as_bytes().strip_prefix(LINK_PREFIX.as_bytes()) {
                let file = paths.net_dir.join(OsStr::from_bytes(file));
                found.links.extend(Link::read(paths.own_dir.join(&name), file));
            } else if let Some((list, file)) = name.to_str().and_then(|name| name.split_once(FROM)) {
                let copy = paths.own_dir.join(&name);
                found.singles.push(Single {
                    text: fs::read(copy.here()).map_err(|e| format!("read the copy of the original: {e}")),
                    list: paths.net_dir.join(list),
                    file: paths.net_dir.join(file),
                    copy,
                });
            }
        }
        found
    }

    /// The original of a list of ours.
    pub fn single_of(&self, list: &HostPath) -> Option<&Single> {
        self.singles.iter().find(|single| single.list == *list)
    }

    /// The symlink that was in this place.
    pub fn link_at(&self, file: &HostPath) -> Option<&Link> {
        self.links.iter().find(|link| link.file == *file)
    }

    /// Every file in our own directory that holds an original.
    pub fn records(&self) -> impl Iterator<Item = &HostPath> {
        let copies = self.singles.iter().map(|single| &single.copy);
        copies.chain(self.links.iter().map(|link| &link.record))
    }
}

impl Single {
    /// Where the copy of `file` is kept while `list` replaces it.
    pub fn copy_path(paths: &Paths, list: &HostPath, file: &HostPath) -> HostPath {
        let name = |path: &HostPath| path.host().file_name().unwrap_or_default().to_owned();
        let mut copy = name(list);
        copy.push(FROM);
        copy.push(name(file));
        paths.own_dir.join(copy)
    }

    /// True when the list still begins with this plugin, whatever the layout.
    pub fn made(&self, list: &NetFile) -> bool {
        let Content::Network { text, network } = &list.content else {
            return false;
        };
        let value =
            |text: &[u8]| serde_json::from_str::<serde_json::Value>(&String::from_utf8_lossy(text)).ok();
        let first = network
            .plugins
            .first()
            .and_then(|p| value(text.get(p.span.clone())?));
        let original = self.text.as_ref().ok().and_then(|text| value(text));
        first.is_some() && first == original
    }
}

impl Link {
    /// Where the symlink `file` is kept.
    pub fn record_path(paths: &Paths, file: &HostPath) -> HostPath {
        let mut name = OsString::from(LINK_PREFIX);
        name.push(file.host().file_name().unwrap_or_default());
        paths.own_dir.join(name)
    }

    /// Returns the bytes of a record. A path holds no NUL, so the first one ends it.
    pub fn encode(target: &OsStr, text: &[u8]) -> Vec<u8> {
        [target.as_bytes(), b"\0", text].concat()
    }

    fn read(record: HostPath, file: HostPath) -> Option<Self> {
        let kept = fs::read(record.here()).ok()?;
        let end = kept.iter().position(|b| *b == 0)?;
        let (target, text) = kept.split_at(end);
        let target = PathBuf::from(OsString::from_vec(target.to_vec()));
        Some(Self {
            now: Behind::read(&file, &target),
            text: text.get(1..)?.to_vec(),
            record,
            file,
            target,
        })
    }

    /// True when `text` is what was behind the symlink then, whatever has become of our entry in it; or what is behind it
    /// now, in case a kill left the file newer than this record.
    pub fn made(&self, text: &[u8], network: &Network, ours: &str) -> bool {
        let without = |text: &[u8], network: &Network| match edit::without_entry(text, network, ours) {
            Without::Unchanged => text.to_vec(),
            Without::Text(left) => left,
            Without::Nothing => Vec::new(),
        };
        let left = without(text, network);
        let then = Network::parse(&self.text, form(&self.file));
        then.is_ok_and(|then| without(&self.text, &then) == left)
            || self
                .now
                .as_ref()
                .is_some_and(|now| without(&now.text, &now.network) == left)
    }

    /// The network behind the symlink, when it has changed since our file was made from it.
    pub fn changed(&self) -> Option<&Behind> {
        self.now.as_ref().filter(|now| now.text != self.text)
    }
}

impl Behind {
    fn read(file: &HostPath, target: &Path) -> Option<Self> {
        let file_behind = file.beside(target).followed().ok()?;
        match survey::read(file_behind.here(), form(file))? {
            Content::Network { text, network } => Some(Self {
                file: file_behind,
                text,
                network,
            }),
            _ => None,
        }
    }

    /// True for a list that our entry can be inserted into.
    pub fn takes_entry(&self, ours: &str) -> bool {
        self.network.form == Form::List && self.network.connects(ours) && !self.network.has(ours)
    }
}
