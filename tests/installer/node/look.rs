//! The node looked at: what is in its directories, and what has changed.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::Value;

use super::Node;

impl Node {
    /// True when exactly one entry of ours is in this file.
    pub fn has_entry(&self, network: &str) -> bool {
        let text = fs::read(self.net(network)).unwrap_or_default();
        let value: Value = serde_json::from_slice(&text).unwrap_or_default();
        let plugins = value["plugins"].as_array().cloned().unwrap_or_default();
        plugins.iter().filter(|p| p["type"] == "linkerd-cni").count() == 1
    }

    /// Every path below the node's root with mode and content: two of these are equal when nothing changed.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        collect(&self.root.join("host"), &mut found);
        found
    }

    /// Every path with inode and time of change: two of these are equal when nothing was written.
    pub fn stamps(&self) -> BTreeMap<PathBuf, (u64, i64, i64)> {
        let stamp = |path: &Path| {
            let m = fs::symlink_metadata(path).unwrap();
            (m.ino(), m.ctime(), m.ctime_nsec())
        };
        self.snapshot()
            .into_keys()
            .map(|p| (p.clone(), stamp(&p)))
            .collect()
    }

    /// The node for people.
    pub fn show(&self) -> String {
        let show = |(path, (mode, content)): (PathBuf, (u32, Vec<u8>))| {
            format!(
                "{mode:o} {}\n  {}\n",
                path.display(),
                String::from_utf8_lossy(&content)
            )
        };
        self.snapshot().into_iter().map(show).collect()
    }
}

/// Makes a file as old as one that nobody is writing any more.
pub fn settle(path: &Path) {
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    File::options()
        .append(true)
        .open(path)
        .unwrap()
        .set_modified(an_hour_ago)
        .unwrap();
}

/// The mode of a file.
pub fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        .mode()
        & 0o7777
}

fn collect(dir: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        // A file may go away while a running installer is looked at.
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.is_dir() {
            found.insert(path.clone(), (metadata.mode() & 0o7777, Vec::new()));
            collect(&path, found);
        } else {
            let content = match fs::read_link(&path) {
                Ok(target) => format!("-> {}", target.display()).into_bytes(),
                Err(_) => fs::read(&path).unwrap_or_default(),
            };
            found.insert(path, (metadata.mode() & 0o7777, content));
        }
    }
}
