//! A file that lies ready: its bytes are on the disk, it has no name yet. To put it in place takes a name and a rename, and
//! no wait for a disk that may be busy.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use super::{Temporary, beside, directory_of};
use crate::sys;

/// The file. The kernel frees it when it is dropped, and when this process ends.
#[derive(Debug)]
pub struct Spare {
    file: File,
    content: Vec<u8>,
}

impl Spare {
    /// Writes one that can take the place of `target`. None where the filesystem knows no files without a name (overlayfs
    /// before Linux 6.1, NFS) or has no room: without it a replacement takes longer, and that is all. Who watches the
    /// directory hears of the write, under a number for a name: a runtime then loads the same list once more.
    pub fn make(target: &Path, content: &[u8]) -> Option<Self> {
        let mut file = OpenOptions::new()
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_TMPFILE)
            .open(directory_of(target))
            .ok()?;
        file.write_all(content).and_then(|()| file.sync_all()).ok()?;
        Some(Self {
            file,
            content: content.to_vec(),
        })
    }

    /// True when these are its bytes.
    pub fn holds(&self, content: &[u8]) -> bool {
        self.content == content
    }

    /// Gives it the permissions of `source` and a temporary name beside `target`.
    pub(super) fn named(self, target: &Path, source: &Path) -> Option<Temporary> {
        let temporary = Temporary {
            path: beside(target),
            file: self.file,
            renamed: false,
        };
        // Before it has a name: nobody can take it for a leftover.
        let _ = temporary.file.try_lock();
        temporary.look_like(source).ok()?;
        sys::give_name(&temporary.file, &temporary.path).ok()?;
        Some(temporary)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    use super::*;
    use crate::{node::atomic::replace_seen, scratch::Scratch};

    #[test]
    fn a_spare_of_the_right_bytes_takes_the_targets_place_and_permissions() {
        let dir = Scratch::new();
        let target = dir.path().join("10-x.conflist");
        for (spare_holds, is_used) in [("ours", true), ("older", false)] {
            fs::write(&target, "theirs").unwrap();
            fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
            let spare = Spare::make(&target, spare_holds.as_bytes()).unwrap();
            // Kept open, so that its number is nobody else's.
            let its = spare.file.try_clone().unwrap();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "it has no name");
            assert!(replace_seen(&target, &target, b"theirs", b"ours", Some(spare)).unwrap());
            let found = fs::metadata(&target).unwrap();
            assert_eq!(fs::read(&target).unwrap(), b"ours");
            assert_eq!(found.mode() & 0o7777, 0o640);
            assert_eq!(
                found.ino() == its.metadata().unwrap().ino(),
                is_used,
                "{spare_holds}"
            );
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_spare_does_not_replace_what_somebody_has_written_meanwhile() {
        let dir = Scratch::new();
        let target = dir.path().join("10-x.conflist");
        fs::write(&target, "theirs").unwrap();
        let spare = Spare::make(&target, b"ours");
        assert!(spare.is_some());
        assert!(!replace_seen(&target, &target, b"what we saw", b"ours", spare).unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
