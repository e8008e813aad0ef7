//! A file is there as it was or as it shall be, never in between.
//!
//! The temporary file lies beside its target, because containerd is not woken by a rename from another directory, and
//! because the image's own root may be read-only. Its last extension is one that no runtime loads. While it is being
//! written its writer holds a lock on it, so that anybody can tell a leftover of a dead process from work in progress.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};

use crate::sys;

/// The last extension of every temporary file.
const EXTENSION: &str = "evergreen-tmp";

/// Whose permissions a new file gets.
#[derive(Debug, Clone, Copy)]
pub enum Access<'a> {
    /// This mode, and the user and group of this process.
    Mode(u32),
    /// Mode, user, group and extended attributes of this file, which is somebody else's.
    As(&'a Path),
}

/// Puts `content` at `target`, whatever is there.
pub fn replace(target: &Path, content: &[u8], access: Access<'_>) -> Result<()> {
    replace_checked(target, content, access, |_| Ok(()))
}

/// Puts `content` at `target`, but only after `check` has accepted the finished file under its temporary name.
pub fn replace_checked(
    target: &Path,
    content: impl Read,
    access: Access<'_>,
    check: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let mut temporary = Temporary::beside(target)?;
    temporary.write(content, access)?;
    check(&temporary.path)?;
    temporary.rename_to(target)?;
    sync_directory_of(target)
}

/// Puts `content` at `target`, with its permissions, if it still holds `seen`. False when somebody else has written it,
/// removed it or set its permissions since: what they meant must not be lost. Only the moment of the rename itself stays open.
pub fn replace_seen(target: &Path, seen: &[u8], content: &[u8]) -> Result<bool> {
    let mut temporary = Temporary::beside(target)?;
    let before = access_of(target)?;
    temporary.write(content, Access::As(target))?;
    if fs::read(target).is_ok_and(|now| now == seen) && access_of(target).is_ok_and(|now| now == before) {
        temporary.rename_to(target)?;
        sync_directory_of(target).map(|()| true)
    } else {
        Ok(false)
    }
}

/// Takes a file away for good; one that is not there is as wanted. True when there was one.
pub fn remove(target: &Path) -> Result<bool> {
    match fs::remove_file(target) {
        Ok(()) => sync_directory_of(target).map(|()| true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e).context("remove"),
    }
}

/// Takes a file away for good if it still holds `seen`. False when somebody else has written it since it was seen.
pub fn remove_seen(target: &Path, seen: &[u8]) -> Result<bool> {
    match fs::read(target) {
        Ok(now) if now != seen => Ok(false),
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e).context("read it again"),
        _ => remove(target).map(|_| true),
    }
}

/// Removes what writers that died have left in a directory. Returns the names; errors are left to the next time, since a
/// leftover hurts nobody.
pub fn sweep(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(is_temporary))
        .filter(|path| open_at_once(path).is_ok_and(|file| file.try_lock().is_ok()))
        .filter(|path| fs::remove_file(path).is_ok())
        .collect()
}

/// Opens a file to be read. A pipe of this name would make a plain open wait for a writer that may never come.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

/// True for the name of a temporary file, ours or another installer's.
pub fn is_temporary(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new(EXTENSION))
}

/// Makes the last change in a file's directory survive a power cut.
pub fn sync_directory_of(target: &Path) -> Result<()> {
    File::open(directory_of(target))
        .and_then(|d| d.sync_all())
        .context("sync the directory")
}

fn directory_of(target: &Path) -> &Path {
    target.parent().unwrap_or(Path::new("/"))
}

/// Mode, user and group.
fn access_of(path: &Path) -> Result<(u32, u32, u32)> {
    let found = fs::metadata(path).context("read the permissions to keep")?;
    Ok((found.mode(), found.uid(), found.gid()))
}

/// A file under a name of its own; gone when dropped, unless it was renamed.
struct Temporary {
    path: PathBuf,
    file: File,
    renamed: bool,
}

impl Temporary {
    fn beside(target: &Path) -> Result<Self> {
        let path = target.with_file_name(temporary_name(target.file_name().unwrap_or_default()));
        // 0600 from the first byte: whoever may read it at the end, nobody may before.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| {
                // Not the name, which is another one each time: a trouble that lasts is said once.
                format!("create a file in {}", directory_of(target).display())
            })?;
        // Nobody else knows the name, so this cannot wait; a filesystem without locks only loses the sweeping.
        let _ = file.try_lock();
        Ok(Self {
            path,
            file,
            renamed: false,
        })
    }

    fn write(&mut self, mut content: impl Read, access: Access<'_>) -> Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match content.read(&mut buffer).context("read the source")? {
                0 => break,
                n => self
                    .file
                    .write_all(buffer.get(..n).unwrap_or_default())
                    .context("write")?,
            }
        }
        match access {
            Access::Mode(mode) => self.set_mode(mode)?,
            Access::As(other) => self.look_like(other)?,
        }
        self.file.sync_all().context("sync")?;
        // No program runs while somebody may write to it, so from here on only a reader holds the lock.
        self.file = File::open(&self.path).context("open again")?;
        let _ = self.file.try_lock();
        Ok(())
    }

    fn rename_to(&mut self, target: &Path) -> Result<()> {
        fs::rename(&self.path, target).context("rename into place")?;
        self.renamed = true;
        Ok(())
    }

    fn look_like(&self, other: &Path) -> Result<()> {
        let other = File::open(other).context("read the permissions to keep")?;
        let wanted = other.metadata().context("read the permissions to keep")?;
        let mine = self.file.metadata().context("read the permissions")?;
        if (wanted.uid(), wanted.gid()) != (mine.uid(), mine.gid()) {
            fchown(&self.file, Some(wanted.uid()), Some(wanted.gid())).context("keep the owner")?;
        }
        sys::copy_attributes(&other, &self.file);
        self.set_mode(wanted.mode())
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        self.file
            .set_permissions(Permissions::from_mode(mode & 0o7777))
            .context("set the mode")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            // What cannot be removed now is swept later.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A name nobody else uses: process ids do not help, since every installer is process 1 of its container.
fn temporary_name(target: &OsStr) -> OsString {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let mut name = OsString::from(".");
    name.push(target);
    name.push(format!(".{nanos:x}-{}-{count}.{EXTENSION}", std::process::id()));
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_file_is_replaced_with_its_mode_and_nothing_is_left_beside_it() {
        let dir = Scratch::new();
        let target = dir.path().join("10-x.conflist");
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
        replace(&target, b"new", Access::As(&target)).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_refused_leaves_the_old_one() {
        let dir = Scratch::new();
        let target = dir.path().join("plugin");
        fs::write(&target, "old").unwrap();
        let refused = replace_checked(&target, &b"new"[..], Access::Mode(0o755), |temporary| {
            assert_eq!(fs::metadata(temporary)?.mode() & 0o7777, 0o755);
            anyhow::bail!("no")
        });
        assert_eq!(refused.unwrap_err().to_string(), "no");
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_somebody_has_written_meanwhile_is_not_lost() {
        let dir = Scratch::new();
        let target = dir.path().join("10-x.conflist");
        fs::write(&target, "theirs").unwrap();
        assert!(!replace_seen(&target, b"what we saw", b"ours").unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
        assert!(!remove_seen(&target, b"what we saw").unwrap());
        assert!(replace_seen(&target, b"theirs", b"ours").unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"ours");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(remove_seen(&target, b"ours").unwrap() && !target.exists());
        assert!(remove_seen(&target, b"ours").unwrap(), "it is gone, as wanted");
    }

    #[test]
    fn leftovers_are_swept_and_work_in_progress_is_not() {
        let dir = Scratch::new();
        let dead = dir.path().join(".10-x.conflist.1-1-0.evergreen-tmp");
        fs::write(&dead, "half").unwrap();
        let living = Temporary::beside(&dir.path().join("10-x.conflist")).unwrap();
        fs::write(dir.path().join("10-x.conflist.tmp"), "somebody else's").unwrap();
        assert_eq!(sweep(dir.path()), [dead]);
        assert!(living.path.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn no_runtime_loads_a_temporary_file() {
        let name = temporary_name(OsStr::new("10-x.conflist"));
        assert_eq!(Path::new(&name).extension(), Some(OsStr::new("evergreen-tmp")));
    }
}
