//! A file read whole, up to a limit. `fs::read` has none, and a path may lead to a pipe without a writer or to a device.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Opens a file for reading; a named pipe does not block. `flags` are further flags of open(2), such as `O_NOFOLLOW`.
pub fn open(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | flags)
        .open(path)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// [`io::ErrorKind::IsADirectory`], [`io::ErrorKind::InvalidInput`] for other files that are not regular,
/// [`io::ErrorKind::FileTooLarge`], or the error of the read.
pub fn read(file: &File, limit: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(limit)).unwrap_or(0) + 1);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("larger than {} MiB", limit >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok((bytes, metadata))
}
