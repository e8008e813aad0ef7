//! Two installers on one node: which of them acts. Touches our own directory and the records in it.
//!
//! Each installer that stays keeps a record `owner-N` in our directory and a lock on it for as long as it lives: a dead
//! one's record is known by its lock being free, whatever killed it. N grows with each start. The living one with the
//! highest N acts; the others leave everything as it is, and act again when it is gone.

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
/// How long another installer's turn may take before we no longer wait for its end.
const TURN_TAKES: Duration = Duration::from_secs(3);

/// Our record, when we have one.
#[derive(Debug, Default)]
pub struct Ownership(Option<Record>);

#[derive(Debug)]
struct Record {
    number: u64,
    text: String,
    /// Holds the lock.
    file: File,
}

/// Who acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// We do.
    Ours,
    /// A newer one does; this is its record's text, for people.
    Theirs(String),
}

/// The other installers that live on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peers {
    /// There is none.
    None,
    /// They act when this one is gone.
    Older,
    /// One at least of them acts.
    Newer,
}

/// While this is held, no other installer looks at the node or changes it.
#[derive(Debug)]
pub struct Turn {
    _lock: Option<File>,
}

impl Turn {
    /// Waits for the end of another installer's turn. One that hangs is not waited for: two turns at once do no harm that
    /// the next turn does not mend.
    pub fn begin(own_dir: &HostPath) -> Self {
        let deadline = Deadline::after(TURN_TAKES);
        while !deadline.is_over() {
            let Ok(dir) = File::open(own_dir.here()) else {
                break;
            };
            match dir.try_lock() {
                // Another one may have removed the directory, and a third made it anew, before we had the lock.
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
    /// Makes our record if it is not there, sweeps the records of the dead, and says who acts.
    pub fn standing(&mut self, paths: &Paths) -> Result<Role> {
        let own_dir = &paths.own_dir;
        let others = self.living_others(own_dir)?;
        let highest = others.iter().map(|(number, _)| *number).max().unwrap_or(0);
        match &self.0 {
            Some(mine) if is_at(&mine.file, &record(own_dir, mine.number)) => {}
            // Ours alone was removed: it comes back with its number, so that this does not change who acts.
            Some(mine) => self.0 = Some(Record::make(own_dir, mine.number, mine.text.clone())?),
            None => {
                // Numbers grow by one with each start: only a hand can have made this one.
                let Some(number) = highest.checked_add(1) else {
                    bail!(
                        "{}: no installer can be newer than a record of this number, which no installer has made: remove it",
                        record(own_dir, highest)
                    )
                };
                self.0 = Some(Record::make(own_dir, number, text())?);
            }
        }
        let newer = |(number, _): &(u64, String)| self.0.as_ref().is_some_and(|mine| *number > mine.number);
        Ok(others
            .into_iter()
            .rfind(newer)
            .map_or(Role::Ours, |(_, text)| Role::Theirs(text)))
    }

    /// Who else lives. When that cannot be seen, the safe answer is a newer one: it will see to everything.
    pub fn company(&self, paths: &Paths) -> Peers {
        let mine = self.0.as_ref().map_or(0, |mine| mine.number);
        match self.living_others(&paths.own_dir) {
            Err(_) => Peers::Newer,
            Ok(others) if others.is_empty() => Peers::None,
            Ok(others) if others.iter().any(|(number, _)| *number > mine) => Peers::Newer,
            Ok(_) => Peers::Older,
        }
    }

    /// Takes our record away.
    pub fn resign(&mut self, paths: &Paths) {
        if let Some(mine) = self.0.take() {
            // A record that stays is that of a dead one, which the next installer sweeps.
            let _ = fs::remove_file(record(&paths.own_dir, mine.number).here());
        }
    }

    /// Numbers and texts of the other living ones, ascending. The dead ones' records go.
    fn living_others(&self, own_dir: &HostPath) -> Result<Vec<(u64, String)>> {
        let mut living = Vec::new();
        for number in records(own_dir)? {
            if self.0.as_ref().is_some_and(|mine| mine.number == number) {
                continue;
            }
            let path = record(own_dir, number);
            let Ok(mut file) = File::open(path.here()) else {
                continue;
            };
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                let mut text = String::new();
                // For people only: one that cannot be read is as alive.
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
    fn make(own_dir: &HostPath, number: u64, text: String) -> Result<Self> {
        let path = record(own_dir, number);
        let open = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path.here());
        let mut file = open.with_context(|| format!("make the record {path}"))?;
        file.try_lock()
            .map_err(io::Error::from)
            .with_context(|| format!("lock the record {path}"))?;
        file.write_all(text.as_bytes())
            .with_context(|| format!("write the record {path}"))?;
        Ok(Self { number, text, file })
    }
}

fn text() -> String {
    // In a pod that is the pod's name.
    let instance = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    json!({
        "instance": instance.trim(),
        "version": env!("CARGO_PKG_VERSION"),
        "since": clock::rfc3339(clock::now()),
    })
    .to_string()
}

/// Removes every record, and says which installer will put everything back.
pub fn remove_all(paths: &Paths, report: &mut Report) {
    let Ok(living) = Ownership::default().living_others(&paths.own_dir) else {
        return;
    };
    for (number, text) in living {
        report.notice(format_args!(
            "an installer is still running and will put everything back: {text}"
        ));
        let _ = fs::remove_file(record(&paths.own_dir, number).here());
    }
}

/// Makes our directory, or closes it to others.
pub fn own_directory(dir: &HostPath, report: &mut Report) -> Result<()> {
    match DirBuilder::new().mode(OWN_DIR_MODE).create(dir.here()) {
        Ok(()) => report.changed("made our directory", dir),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e).context("make our directory"),
    }
    let found = fs::symlink_metadata(dir.here()).context("look at our directory")?;
    if !found.is_dir() {
        bail!("our directory is something else: remove it");
    }
    if found.mode() & 0o7777 != OWN_DIR_MODE {
        fs::set_permissions(dir.here(), Permissions::from_mode(OWN_DIR_MODE)).context("set its mode")?;
        report.changed("closed our directory to others", dir);
    }
    Ok(())
}

fn records(own_dir: &HostPath) -> Result<Vec<u64>> {
    let entries = match fs::read_dir(own_dir.here()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context("read our directory")?,
    };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    Ok(names
        .filter_map(|n| n.strip_prefix(PREFIX)?.parse().ok())
        .collect())
}

fn record(own_dir: &HostPath, number: u64) -> HostPath {
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
    fn the_newest_living_one_acts_and_the_older_one_again_when_it_is_gone() {
        let dir = Scratch::new();
        let paths = paths(dir.path());
        let (mut old, mut new) = (Ownership::default(), Ownership::default());
        assert_eq!(old.standing(&paths).unwrap(), Role::Ours);
        assert_eq!(old.company(&paths), Peers::None);
        assert_eq!(new.standing(&paths).unwrap(), Role::Ours);
        let Role::Theirs(text) = old.standing(&paths).unwrap() else {
            panic!("the old one acts")
        };
        assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
        assert_eq!(old.company(&paths), Peers::Newer);
        assert_eq!(new.company(&paths), Peers::Older);
        // As if it had been killed: its record stays, its lock does not.
        drop(new);
        assert_eq!(old.standing(&paths).unwrap(), Role::Ours);
        assert_eq!(records(&paths.own_dir).unwrap(), [1]);
    }

    #[test]
    fn a_record_that_was_removed_comes_back_with_its_number() {
        let dir = Scratch::new();
        let paths = paths(dir.path());
        let (mut old, mut new) = (Ownership::default(), Ownership::default());
        old.standing(&paths).unwrap();
        new.standing(&paths).unwrap();
        fs::remove_dir_all(paths.own_dir.here()).unwrap();
        fs::create_dir(paths.own_dir.here()).unwrap();
        assert_eq!(old.standing(&paths).unwrap(), Role::Ours);
        assert_eq!(new.standing(&paths).unwrap(), Role::Ours);
        assert!(matches!(old.standing(&paths).unwrap(), Role::Theirs(_)));
    }

    #[test]
    fn a_turn_waits_for_another_ones_and_not_for_ever() {
        let dir = Scratch::new();
        let paths = paths(dir.path());
        let first = Turn::begin(&paths.own_dir);
        assert!(first._lock.is_some());
        assert!(Turn::begin(&paths.own_dir)._lock.is_none());
        drop(first);
        assert!(Turn::begin(&paths.own_dir)._lock.is_some());
    }
}
