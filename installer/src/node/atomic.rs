//! A file is there as it was or as it shall be, never in between.
//!
//! The temporary file lies beside its target, because containerd is not woken by a rename from another directory, and
//! because the image's own root may be read-only. Its last extension is one that no runtime loads. While it is being
//! written its writer holds a lock on it, so that anybody can tell a leftover of a dead process from work in progress.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use evergreen_kube::file;

use crate::sys;

/// The last extension of every temporary file.
const EXTENSION: &str = "evergreen-tmp";

/// How much is written at once. A program that was written in smaller pieces starts more slowly for as long as the page cache
/// holds it: its folios are smaller.
const PIECE: usize = 256 * 1024;

/// Whose permissions a new file gets.
#[derive(Debug, Clone, Copy)]
pub enum Access<'a> {
    /// This mode, and the user and group of this process.
    Mode(u32),
    /// Mode, user, group and extended attributes of this file, which is somebody else's.
    As(&'a Path),
}

/// What tells a file from another one that was at the same path before, and from itself before it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    file: (u64, u64),
    written: (i64, i64),
}

impl Identity {
    /// None when there is no file.
    pub fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            file: (found.dev(), found.ino()),
            written: (found.mtime(), found.mtime_nsec()),
        })
    }
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

/// Puts `content` at `target`, with the permissions of `source`, if that still holds `seen`. Returns false when another process
/// has written it, removed it or changed its permissions since; only the instant of the rename stays unguarded. `source` is
/// the target, or what a symlink there leads to: then the symlink is replaced and `source` stays untouched.
pub fn replace_if_unchanged(target: &Path, source: &Path, seen: &[u8], content: &[u8]) -> Result<bool> {
    let before = access_of(source)?;
    let mut temporary = Temporary::beside(target)?;
    temporary.write(content, Access::As(source))?;
    let unchanged =
        fs::read(source).is_ok_and(|now| now == seen) && access_of(source).is_ok_and(|now| now == before);
    if unchanged {
        temporary.rename_to(target)?;
        sync_directory_of(target)?;
    }
    Ok(unchanged)
}

/// Puts a link at `target`, whatever is there.
pub fn link(target: &Path, to: &Path) -> Result<()> {
    let temporary = beside(target);
    symlink(to, &temporary).with_context(|| in_directory_of(target))?;
    if let Err(error) = fs::rename(&temporary, target) {
        // What cannot be removed now is swept later.
        let _ = fs::remove_file(&temporary);
        return Err(error).context("rename into place");
    }
    sync_directory_of(target)
}

/// Takes a file away for good; one that is not there is as wanted. True when there was one.
pub fn remove(target: &Path) -> Result<bool> {
    match fs::remove_file(target) {
        Ok(()) => sync_directory_of(target).map(|()| true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e).context("remove"),
    }
}

/// Removes `target` for good if `source` (see [`replace_if_unchanged`]) still holds `seen`, or is gone. Returns false when
/// another process has written it since.
pub fn remove_if_unchanged(target: &Path, source: &Path, seen: &[u8]) -> Result<bool> {
    match fs::read(source) {
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
        // A link cannot be locked; it is there for a moment only, and a turn excludes another one.
        .filter(|path| path.is_symlink() || file::open(path, 0).is_ok_and(|file| file.try_lock().is_ok()))
        .filter(|path| fs::remove_file(path).is_ok())
        .collect()
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
        let path = beside(target);
        // 0600 from the first byte: whoever may read it at the end, nobody may before.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| in_directory_of(target))?;
        // Nobody else knows the name, so this cannot wait; a filesystem without locks only loses the sweeping.
        let _ = file.try_lock();
        Ok(Self {
            path,
            file,
            renamed: false,
        })
    }

    fn write(&mut self, mut content: impl Read, access: Access<'_>) -> Result<()> {
        let mut buffer = vec![0; PIECE];
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

/// A temporary path in the target's directory.
fn beside(target: &Path) -> PathBuf {
    target.with_file_name(temporary_name(target.file_name().unwrap_or_default()))
}

/// Not the name, which is another one each time: a trouble that lasts is said once.
fn in_directory_of(target: &Path) -> String {
    format!("create a file in {}", directory_of(target).display())
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
mod tests;
