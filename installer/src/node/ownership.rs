//! Several installers on one node: which of them acts. Below `node` because its records are files in our own directory.
//!
//! Each long-running installer keeps a record `owner-N` with a lock on it for as long as it lives; a free lock marks the
//! record of a dead one, whatever killed it. N grows with each start. The living installer with the highest N acts. The
//! others change nothing, and act again when it is gone.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use evergreen_kube::{clock, deadline::Deadline};
use serde_json::json;

use crate::{cli::config::Paths, host::HostPath, node::report::Report};

const OWN_DIR_MODE: u32 = 0o700;
const PREFIX: &str = "owner-";
/// The longest wait for another installer's reconcile pass.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// This installer's record, once there is one.
#[derive(Debug, Default)]
pub struct Ownership(Option<Record>);

#[derive(Debug)]
struct Record {
    number: u64,
    text: String,
    /// Holds the lock.
    file: File,
}

/// Which installer acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// This one.
    Owner,
    /// A newer one, with the text of its record.
    Replaced(String),
}

/// The other living installers on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peers {
    /// There are none.
    None,
    /// All are older: they act once this one is gone.
    Older,
    /// One of them is newer.
    Newer,
}

/// Excludes the reconcile passes of other installers.
#[derive(Debug)]
pub struct PassLock {
    _lock: Option<File>,
}

impl PassLock {
    /// Waits for another installer's pass to end, but not for one that hangs: two passes at once do no harm that the next
    /// pass does not repair.
    pub fn acquire(own_dir: &HostPath) -> Self {
        let deadline = Deadline::after(MAX_WAIT);
        while !deadline.is_over()
            && let Ok(dir) = File::open(own_dir.here())
        {
            match dir.try_lock() {
                // Before the lock was ours, others may have removed the directory and created it again.
                Ok(()) if is_at(&dir, own_dir) => return Self { _lock: Some(dir) },
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(5)),
                Err(TryLockError::Error(_)) => break,
            }
        }
        Self { _lock: None }
    }
}

impl Ownership {
    /// Ensures this installer's record, removes those of dead installers, and returns which installer acts.
    pub fn role(&mut self, paths: &Paths) -> Result<Role> {
        let own_dir = &paths.own_dir;
        let others = self.living_others(own_dir)?;
        let (number, text) = match &self.0 {
            // A record that was removed comes back with its number, so that its removal does not change which one acts.
            Some(mine) => (mine.number, mine.text.clone()),
            None => (next_number(own_dir, &others)?, record_text()),
        };
        let is_there = |mine: &Record| is_at(&mine.file, &record_path(own_dir, number));
        if !self.0.as_ref().is_some_and(is_there) {
            self.0 = Some(Record::create(own_dir, number, text)?);
        }
        let newer = others.into_iter().rfind(|(other, _)| *other > number);
        Ok(newer.map_or(Role::Owner, |(_, text)| Role::Replaced(text)))
    }

    /// Returns which other installers live. If that is unknown, a newer one is the safe answer: it will act.
    pub fn peers(&self, paths: &Paths) -> Peers {
        let mine = self.0.as_ref().map_or(0, |mine| mine.number);
        match self.living_others(&paths.own_dir) {
            Ok(others) if others.is_empty() => Peers::None,
            Ok(others) if others.iter().all(|(number, _)| *number < mine) => Peers::Older,
            _ => Peers::Newer,
        }
    }

    /// Removes this installer's record.
    pub fn release(&mut self, paths: &Paths) {
        if let Some(mine) = self.0.take() {
            // The next installer removes what cannot be removed now.
            let _ = fs::remove_file(record_path(&paths.own_dir, mine.number).here());
        }
    }

    /// Returns numbers and texts of the other living installers, ascending. Records of dead ones are removed.
    fn living_others(&self, own_dir: &HostPath) -> Result<Vec<(u64, String)>> {
        let mut living = Vec::new();
        let mine = self.0.as_ref().map(|mine| mine.number);
        for number in records(own_dir)?
            .into_iter()
            .filter(|number| Some(*number) != mine)
        {
            let path = record_path(own_dir, number);
            let Ok(mut file) = File::open(path.here()) else {
                continue;
            };
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                let mut text = String::new();
                // The text is only for people: without it the installer is as alive.
                let _ = file.read_to_string(&mut text);
                living.push((number, text.trim().to_owned()));
            } else {
                let _ = fs::remove_file(path.here());
            }
        }
        living.sort();
        Ok(living)
    }
}

impl Record {
    fn create(own_dir: &HostPath, number: u64, text: String) -> Result<Self> {
        let path = record_path(own_dir, number);
        let create = || {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path.here())?;
            file.try_lock()?;
            file.write_all(text.as_bytes())?;
            Ok::<File, io::Error>(file)
        };
        let file = create().with_context(|| format!("create the record {path}"))?;
        Ok(Self { number, text, file })
    }
}

fn next_number(own_dir: &HostPath, others: &[(u64, String)]) -> Result<u64> {
    let highest = others.last().map_or(0, |(number, _)| *number);
    let Some(next) = highest.checked_add(1) else {
        bail!(
            "{}: no installer creates a record of this number, and none could be newer: remove it",
            record_path(own_dir, highest)
        )
    };
    Ok(next)
}

fn record_text() -> String {
    // In a pod that is the pod's name.
    let instance = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    json!({
        "instance": instance.trim(),
        "version": env!("CARGO_PKG_VERSION"),
        "since": clock::rfc3339(clock::now()),
    })
    .to_string()
}

/// Removes every record, and reports installers that are still running.
pub fn remove_all(paths: &Paths, report: &mut Report) {
    for (number, text) in Ownership::default()
        .living_others(&paths.own_dir)
        .unwrap_or_default()
    {
        report.notice(format_args!(
            "an installer is still running and will install everything again: {text}"
        ));
        let _ = fs::remove_file(record_path(&paths.own_dir, number).here());
    }
}

/// Creates our own directory, or restricts it to root.
pub fn own_directory(dir: &HostPath, report: &mut Report) -> Result<()> {
    match DirBuilder::new().mode(OWN_DIR_MODE).create(dir.here()) {
        Ok(()) => report.changed("directory created", dir),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e).context("create the directory"),
    }
    let found = fs::symlink_metadata(dir.here()).context("read its metadata")?;
    if !found.is_dir() {
        bail!("it is not a directory: remove it");
    }
    if found.mode() & 0o7777 != OWN_DIR_MODE {
        fs::set_permissions(dir.here(), Permissions::from_mode(OWN_DIR_MODE)).context("set its mode")?;
        report.changed("directory restricted to root", dir);
    }
    Ok(())
}

fn records(own_dir: &HostPath) -> Result<Vec<u64>> {
    let entries = match fs::read_dir(own_dir.here()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context("read the directory")?,
    };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    Ok(names
        .filter_map(|n| n.strip_prefix(PREFIX)?.parse().ok())
        .collect())
}

fn record_path(own_dir: &HostPath, number: u64) -> HostPath {
    own_dir.join(format!("{PREFIX}{number}"))
}

/// True when the path leads to this open file.
fn is_at(file: &File, path: &HostPath) -> bool {
    let identity = |m: fs::Metadata| (m.dev(), m.ino());
    let there = fs::symlink_metadata(path.here()).map(identity).ok();
    there.is_some() && there == file.metadata().map(identity).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{cli::settings::RawSettings, scratch::Scratch};

    fn paths(dir: &Path) -> Paths {
        let prefix = dir.as_os_str().to_owned();
        let given = RawSettings::default()
            .with_variables(|n| (n == "CONTAINER_MOUNT_PREFIX").then(|| prefix.clone()))
            .unwrap();
        let paths = Paths::from_settings(&given, "mesh").unwrap();
        fs::create_dir_all(paths.own_dir.here()).unwrap();
        paths
    }

    #[test]
    fn newest_living_installer_acts() {
        let dir = Scratch::new();
        let paths = paths(dir.path());
        let (mut old, mut new) = (Ownership::default(), Ownership::default());
        assert_eq!(old.role(&paths).unwrap(), Role::Owner);
        assert_eq!(old.peers(&paths), Peers::None);
        assert_eq!(new.role(&paths).unwrap(), Role::Owner);
        let Role::Replaced(text) = old.role(&paths).unwrap() else {
            panic!("the old one acts")
        };
        assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
        assert_eq!(old.peers(&paths), Peers::Newer);
        assert_eq!(new.peers(&paths), Peers::Older);
        // As if it had been killed: its record stays, its lock does not.
        drop(new);
        assert_eq!(old.role(&paths).unwrap(), Role::Owner);
        assert_eq!(records(&paths.own_dir).unwrap(), [1]);
    }

    #[test]
    fn removed_record_returns_with_its_number() {
        let dir = Scratch::new();
        let paths = paths(dir.path());
        let (mut old, mut new) = (Ownership::default(), Ownership::default());
        old.role(&paths).unwrap();
        new.role(&paths).unwrap();
        fs::remove_dir_all(paths.own_dir.here()).unwrap();
        fs::create_dir(paths.own_dir.here()).unwrap();
        assert_eq!(old.role(&paths).unwrap(), Role::Owner);
        assert_eq!(new.role(&paths).unwrap(), Role::Owner);
        assert!(matches!(old.role(&paths).unwrap(), Role::Replaced(_)));
    }

    #[test]
    fn pass_waits_for_another_for_three_seconds() {
        let dir = Scratch::new();
        let paths = paths(dir.path());
        let first = PassLock::acquire(&paths.own_dir);
        assert!(first._lock.is_some());
        assert!(PassLock::acquire(&paths.own_dir)._lock.is_none());
        drop(first);
        assert!(PassLock::acquire(&paths.own_dir)._lock.is_some());
    }
}
