//! A projected volume as the kubelet writes it: `token -> ..data/token`, `..data -> ..<time>.<random>`, and a change is one
//! rename of `..data`, after which the old directory is deleted at once (Kubernetes, `pkg/volume/util/atomic_writer.go`).

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

/// The volume.
#[derive(Debug)]
pub struct Volume {
    dir: PathBuf,
    generation: u32,
}

impl Volume {
    /// A new volume in this directory, which is made, with its first files.
    pub fn create(dir: &Path, files: &[(&str, &[u8])]) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let mut volume = Self {
            dir: dir.to_path_buf(),
            generation: 0,
        };
        volume.write(files)?;
        Ok(volume)
    }

    /// Where a file of the volume is seen.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The next generation: these files and no others, all at once.
    pub fn write(&mut self, files: &[(&str, &[u8])]) -> io::Result<()> {
        self.generation += 1;
        let old = fs::read_link(self.path("..data")).ok();
        // A time in the name, as there; the number stands for the random part.
        let new = PathBuf::from(format!("..2026_11_30_00_00_00.{:09}", self.generation));
        fs::create_dir(self.dir.join(&new))?;
        for (name, content) in files {
            let file = self.dir.join(&new).join(name);
            fs::write(&file, content)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
        }
        symlink(&new, self.path("..data_tmp"))?;
        fs::rename(self.path("..data_tmp"), self.path("..data"))?;
        for (name, _) in files {
            match symlink(Path::new("..data").join(name), self.path(name)) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let ours =
                name.to_string_lossy().starts_with("..") || files.iter().any(|(n, _)| name.as_os_str() == *n);
            if !ours {
                fs::remove_file(entry.path())?;
            }
        }
        old.map_or(Ok(()), |old| fs::remove_dir_all(self.dir.join(old)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_replaces_every_file_at_once_and_leaves_nothing_old() {
        let dir = std::env::temp_dir().join(format!("evergreen-volume-{}", std::process::id()));
        let mut volume = Volume::create(&dir, &[("token", b"one"), ("namespace", b"n")]).unwrap();
        assert_eq!(fs::read(volume.path("token")).unwrap(), b"one");
        volume.write(&[("token", b"two"), ("ca.crt", b"ca")]).unwrap();
        assert_eq!(fs::read(volume.path("token")).unwrap(), b"two");
        let mut names: Vec<_> = fs::read_dir(&dir)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(
            names,
            ["..2026_11_30_00_00_00.000000002", "..data", "ca.crt", "token"]
        );
        assert_eq!(fs::read_dir(dir.join(&names[0])).unwrap().count(), 2);
        fs::remove_dir_all(&dir).unwrap();
    }
}
