//! The plugin's binary on the node: the image's file, byte for byte, under the name in `type`, proven to run there. Below
//! `node` because it writes the runtime's plugin directory, and nothing else.

mod version;

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    cli::config::Paths,
    host::HostPath,
    node::{
        atomic::{self, Access},
        report::Report,
    },
    sys,
};

/// Mode of an installed file.
const MODE: u32 = 0o755;
/// The plugin's name in an image that is built for any `type`.
const DEFAULT_NAME: &str = "evergreen-cni";

/// Bytes compared at once.
const CHUNK: u64 = 64 << 10;

/// A file of the image that is installed on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFile {
    /// Its path in the image.
    image: PathBuf,
    /// Its name on the node.
    name: OsString,
    /// The plugin itself, not another file of the image.
    is_plugin: bool,
}

/// Returns the files to install, the plugin last, so that what it may need is there before it.
pub fn image_files(paths: &Paths) -> Result<Vec<ImageFile>> {
    let dir = &paths.image_bin_dir;
    let setting = || {
        format!(
            "read the image's plugins (CONTAINER_CNI_BIN_DIR is {})",
            dir.display()
        )
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(setting)? {
        let path = entry.with_context(setting)?.path();
        if fs::metadata(&path).is_ok_and(|m| m.is_file()) {
            names.extend(path.file_name().map(OsStr::to_owned));
        }
    }
    names.sort();
    let named = |name: &str| names.iter().position(|n| n.as_os_str() == name);
    let only = (names.len() == 1).then_some(0);
    let Some(plugin) = named(&paths.type_name).or_else(|| named(DEFAULT_NAME)).or(only) else {
        bail!(
            "no plugin to install: {} holds neither {:?} (the netconf's `type`) nor {DEFAULT_NAME:?}",
            dir.display(),
            paths.type_name
        );
    };
    let plugin = ImageFile {
        image: dir.join(names.remove(plugin)),
        name: (&paths.type_name).into(),
        is_plugin: true,
    };
    let others = names.into_iter().map(|name| ImageFile {
        image: dir.join(&name),
        name,
        is_plugin: false,
    });
    Ok(others.chain([plugin]).collect())
}

/// Installs the image's files. True when the plugin is in place and has proven to run.
pub fn ensure(paths: &Paths, files: &[ImageFile], proven: &mut Proven, report: &mut Report) -> bool {
    let mut is_in_place = false;
    for file in files {
        let target = paths.bin_dir.join(&file.name);
        match file.install(&target, proven) {
            Ok(is_changed) => {
                if is_changed {
                    report.changed("file installed", &target);
                }
                is_in_place |= file.is_plugin;
            }
            Err(error) => report.failed("binary", &target, &error),
        }
    }
    is_in_place
}

/// Removes the files from the node: the plugin by its name, other files only if they are still the image's.
pub fn remove(paths: &Paths, report: &mut Report) {
    let files = image_files(paths).unwrap_or_default().into_iter();
    let others = files.filter(|file| !file.is_plugin).filter_map(|file| {
        let target = paths.bin_dir.join(&file.name);
        has_same_content(&file.image, target.here())
            .ok()?
            .then_some(target)
    });
    let plugin = paths.bin_dir.join(&paths.type_name);
    for target in others.chain([plugin]) {
        report.removed("binary", "file removed", &target, atomic::remove(target.here()));
    }
}

/// Returns what differs from the image, without changing anything.
pub fn faults(paths: &Paths, files: &[ImageFile]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in files {
        let target = paths.bin_dir.join(&file.name);
        if !file
            .is_installed(target.here())
            .with_context(|| target.to_string())?
        {
            faults.push(format!(
                "{target} is missing or differs from the image: is the installer running (see its log)?"
            ));
        } else if let Err(error) = file.prove(target.here()) {
            faults.push(format!("{target}: {error:#}"));
        }
    }
    Ok(faults)
}

/// The plugin file that last answered VERSION, so that not every pass runs it.
#[derive(Debug, Default)]
pub struct Proven(Option<(u64, u64, i64, i64)>);

impl Proven {
    /// Device, inode and time of the last write.
    fn identity(path: &Path) -> Option<(u64, u64, i64, i64)> {
        let identity = |m: Metadata| (m.dev(), m.ino(), m.mtime(), m.mtime_nsec());
        fs::metadata(path).ok().map(identity)
    }
}

impl ImageFile {
    /// True when something was changed.
    fn install(&self, target: &HostPath, proven: &mut Proven) -> Result<bool> {
        let is_installed = self.is_installed(target.here())?;
        if !is_installed {
            let image = File::open(&self.image).with_context(|| format!("open {}", self.image.display()))?;
            atomic::replace_checked(target.here(), image, Access::Mode(MODE), |temporary| {
                self.prove(temporary)
            })?;
        } else if self.is_plugin
            && proven
                .0
                .is_none_or(|p| Proven::identity(target.here()) != Some(p))
        {
            self.prove(target.here())?;
        }
        if self.is_plugin {
            proven.0 = Proven::identity(target.here());
        }
        Ok(!is_installed)
    }

    fn is_installed(&self, target: &Path) -> Result<bool> {
        let found = match fs::symlink_metadata(target) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found.context("read its metadata")?,
        };
        Ok(found.is_file()
            && found.mode() & 0o7777 == MODE
            && found.uid() == sys::effective_uid()
            && has_same_content(&self.image, target).context("compare it with the image")?)
    }

    /// Runs the plugin. Where this process, unlike the node, mounts the directory without the right to run anything from it,
    /// it runs the image's file, which has the same bytes.
    fn prove(&self, path: &Path) -> Result<()> {
        if !self.is_plugin {
            return Ok(());
        }
        let is_denied = |e: &anyhow::Error| {
            e.chain()
                .filter_map(|c| c.downcast_ref::<io::Error>())
                .any(|e| e.kind() == io::ErrorKind::PermissionDenied)
        };
        match version::ask(path) {
            Err(error) if is_denied(&error) => version::ask(&self.image),
            answer => answer,
        }
        .context("the plugin does not run on this node")
    }
}

/// Compares by content: a node's clock and an image's layers make times meaningless.
fn has_same_content(a: &Path, b: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        a.by_ref().take(CHUNK).read_to_end(&mut left)?;
        b.by_ref().take(CHUNK).read_to_end(&mut right)?;
        if left != right || left.is_empty() {
            return Ok(left == right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn files_are_compared_by_content() {
        let dir = Scratch::new();
        let write = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let big = vec![7; 200_000];
        let mut other = big.clone();
        other[150_000] = 8;
        let (a, b, c) = (write("a", &big), write("b", &big), write("c", &other));
        assert!(has_same_content(&a, &b).unwrap());
        assert!(!has_same_content(&a, &c).unwrap());
        assert!(!has_same_content(&a, &write("d", b"")).unwrap());
        assert!(has_same_content(&write("e", b""), &write("f", b"")).unwrap());
    }

    #[test]
    fn plugin_is_found_by_type_default_or_as_only_file() {
        for (files, plugin) in [
            (vec!["linkerd-cni", "evergreen-cni", "z"], "linkerd-cni"),
            (vec!["a", "evergreen-cni"], "evergreen-cni"),
            (vec!["a"], "a"),
        ] {
            let dir = Scratch::new();
            for file in &files {
                fs::write(dir.path().join(file), "").unwrap();
            }
            fs::create_dir(dir.path().join("folder")).unwrap();
            let found = image_files(&paths(dir.path())).unwrap();
            assert_eq!(found.len(), files.len());
            let last = found.last().unwrap();
            assert!(last.is_plugin);
            assert_eq!(
                (last.image.clone(), last.name.clone()),
                (dir.path().join(plugin), "linkerd-cni".into())
            );
        }
        let dir = Scratch::new();
        fs::write(dir.path().join("a"), "").unwrap();
        fs::write(dir.path().join("b"), "").unwrap();
        let error = image_files(&paths(dir.path())).unwrap_err().to_string();
        assert!(
            error.contains("\"linkerd-cni\"") && error.contains("\"evergreen-cni\""),
            "{error}"
        );
    }

    fn paths(image: &Path) -> Paths {
        let pairs = [("CONTAINER_CNI_BIN_DIR", image.as_os_str().to_owned())];
        let lookup = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
        let given = crate::cli::settings::RawSettings::default()
            .with_variables(lookup)
            .unwrap();
        Paths::from_settings(&given, "linkerd-cni").unwrap()
    }
}
