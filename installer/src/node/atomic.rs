//! Atomic replacement of files: a reader finds the old content or the new, never a part.
//!
//! The temporary file is created beside its target, because containerd is not notified of a rename from another directory
//! and because the image's own root may be read-only. No runtime loads its extension. Its writer holds a lock on it, which
//! tells a file in use from the leftover of a killed process.

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

/// Bytes of one write. Smaller writes make smaller folios in the page cache, and a program that they hold starts more slowly.
const CHUNK: usize = 256 * 1024;

/// The permissions of a new file.
#[derive(Debug, Clone, Copy)]
pub enum Access<'a> {
    /// This mode, and the user and group of this process.
    Mode(u32),
    /// Mode, user, group and extended attributes of this file.
    As(&'a Path),
}

/// Replaces `target`, whatever it holds.
pub fn replace(target: &Path, content: &[u8], access: Access<'_>) -> Result<()> {
    replace_checked(target, content, access, |_| Ok(()))
}

/// Replaces `target` once `check` has accepted the finished file under its temporary name.
pub fn replace_checked(
    target: &Path,
    content: impl Read,
    access: Access<'_>,
    check: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let temporary = Temporary::write(target, content, access)?;
    check(&temporary.path)?;
    temporary.rename_to(target)
}

/// Replaces `target`, with the permissions of `source`, if that still holds `seen`. Returns false when another process has
/// written it, removed it or changed its permissions since; only the instant of the rename stays unguarded. `source` is the
/// target, or what a symlink there leads to: then the symlink is replaced and `source` stays untouched.
pub fn replace_if_unchanged(target: &Path, source: &Path, seen: &[u8], content: &[u8]) -> Result<bool> {
    let before = access_of(source)?;
    let temporary = Temporary::write(target, content, Access::As(source))?;
    let is_unchanged =
        fs::read(source).is_ok_and(|now| now == seen) && access_of(source).is_ok_and(|now| now == before);
    if is_unchanged {
        temporary.rename_to(target)?;
    }
    Ok(is_unchanged)
}

/// Puts a symlink at `target`, whatever is there.
pub fn link(target: &Path, to: &Path) -> Result<()> {
    let path = temporary_path(target);
    symlink(to, &path).with_context(|| in_directory_of(target))?;
    Temporary::from(path).rename_to(target)
}

/// Removes a file for good; false when there was none.
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

/// Removes the temporary files of killed writers and returns their names. Errors are left to the next time: a leftover does
/// no harm.
pub fn sweep(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| (entry.path(), entry.file_name()))
        .filter(|(_, name)| is_temporary(name))
        // A symlink cannot be locked; it exists for a moment only, and passes exclude one another.
        .filter(|(path, _)| path.is_symlink() || file::open(path, 0).is_ok_and(|f| f.try_lock().is_ok()))
        .filter(|(path, _)| fs::remove_file(path).is_ok())
        .map(|(_, name)| name)
        .collect()
}

/// True for the name of a temporary file, this installer's or another one's.
pub fn is_temporary(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new(EXTENSION))
}

/// Makes the last change in a file's directory survive a power failure.
fn sync_directory_of(target: &Path) -> Result<()> {
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

/// A temporary file, removed when dropped without a rename.
struct Temporary {
    path: PathBuf,
    /// Holds the lock.
    file: Option<File>,
    is_renamed: bool,
}

impl From<PathBuf> for Temporary {
    fn from(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            is_renamed: false,
        }
    }
}

impl Temporary {
    fn create(target: &Path) -> Result<(Self, File)> {
        let path = temporary_path(target);
        // 0600 from the first byte, whatever the mode is to be.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| in_directory_of(target))?;
        // No other process knows the name, so this cannot wait; a filesystem without locks only loses the sweeping.
        let _ = file.try_lock();
        Ok((Self::from(path), file))
    }

    fn write(target: &Path, mut content: impl Read, access: Access<'_>) -> Result<Self> {
        let (mut temporary, mut file) = Self::create(target)?;
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = content.read(&mut buffer).context("read the source")?;
            let Some(chunk) = buffer.get(..length).filter(|chunk| !chunk.is_empty()) else {
                break;
            };
            file.write_all(chunk).context("write")?;
        }
        let mode = match access {
            Access::Mode(mode) => mode,
            Access::As(other) => copy_owner_and_attributes(other, &file)?,
        };
        file.set_permissions(Permissions::from_mode(mode & 0o7777))
            .context("set the mode")?;
        file.sync_all().context("sync")?;
        // The kernel runs no program that is open for writing, so from here on a reader holds the lock.
        let reader = File::open(&temporary.path).context("open again")?;
        drop(file);
        let _ = reader.try_lock();
        temporary.file = Some(reader);
        Ok(temporary)
    }

    fn rename_to(mut self, target: &Path) -> Result<()> {
        fs::rename(&self.path, target).context("rename into place")?;
        self.is_renamed = true;
        sync_directory_of(target)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            // `sweep` removes what cannot be removed now.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the mode, which is to be set last.
fn copy_owner_and_attributes(from: &Path, to: &File) -> Result<u32> {
    let from = File::open(from).context("read the permissions to keep")?;
    let wanted = from.metadata().context("read the permissions to keep")?;
    let mine = to.metadata().context("read the permissions")?;
    if (wanted.uid(), wanted.gid()) != (mine.uid(), mine.gid()) {
        fchown(to, Some(wanted.uid()), Some(wanted.gid())).context("keep the owner")?;
    }
    sys::copy_attributes(&from, to);
    Ok(wanted.mode())
}

/// Without the file name, which differs each time: a problem that lasts is logged once.
fn in_directory_of(target: &Path) -> String {
    format!("create a file in {}", directory_of(target).display())
}

/// Returns an unused path in the target's directory. The process id alone would not do: every installer is process 1 of its
/// container.
fn temporary_path(target: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{nanos:x}-{}-{count}.{EXTENSION}", std::process::id()));
    target.with_file_name(name)
}

#[cfg(test)]
mod tests;
