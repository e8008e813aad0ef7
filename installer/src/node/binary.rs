//! The plugin on the node: the image's file, byte for byte, under the name that `type` asks for, proven to run there.
//! Touches the runtime's plugin directory only.

mod version;

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    cli::config::Paths,
    host::HostPath,
    node::{
        atomic::{self, Access, Identity},
        report::Report,
    },
    sys,
};

/// Mode of an installed file.
const MODE: u32 = 0o755;
/// The plugin's name in an image that does not know the `type` it will be asked for.
const OUR_NAME: &str = "evergreen-cni";

/// A file of the image that belongs on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Where the image has it.
    image: PathBuf,
    /// Its name on the node.
    name: OsString,
    /// The plugin itself, not another file that came along.
    is_plugin: bool,
}

/// The files to install, the plugin last, so that what it may need is there before it.
pub fn wanted(paths: &Paths) -> Result<Vec<Wanted>> {
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
    let Some(plugin) = named(&paths.type_name).or_else(|| named(OUR_NAME)).or(only) else {
        bail!(
            "no plugin to install: {} holds neither {:?} (the netconf's `type`) nor {OUR_NAME:?}",
            dir.display(),
            paths.type_name
        );
    };
    let plugin = names.remove(plugin);
    let others = names.into_iter().map(|name| Wanted {
        image: dir.join(&name),
        name,
        is_plugin: false,
    });
    let plugin = Wanted {
        image: dir.join(plugin),
        name: (&paths.type_name).into(),
        is_plugin: true,
    };
    Ok(others.chain([plugin]).collect())
}

/// Makes the node's files the image's. True when the plugin is in place and has answered.
pub fn ensure(paths: &Paths, wanted: &[Wanted], proven: &mut Proven, report: &mut Report) -> bool {
    let mut plugin_in_place = false;
    for file in wanted {
        let target = paths.bin_dir.join(&file.name);
        match file.install(&target, proven) {
            Ok(changed) => {
                if changed {
                    report.changed("installed the plugin's file", &target);
                }
                plugin_in_place |= file.is_plugin;
            }
            Err(error) => report.failed("binary", &target, &error),
        }
    }
    plugin_in_place
}

/// Takes the node's files away: the plugin by its name, what came along only if it is still the image's.
pub fn take_away(paths: &Paths, report: &mut Report) {
    let others = wanted(paths).unwrap_or_default();
    let others = others
        .iter()
        .filter(|f| !f.is_plugin)
        .map(|f| (Some(&f.image), f.name.as_os_str()));
    for (image, name) in others.chain([(None, paths.type_name.as_ref())]) {
        let target = paths.bin_dir.join(name);
        if image.is_some_and(|image| !same_content(image, target.here()).unwrap_or(false)) {
            continue;
        }
        report.removed(
            "binary",
            "removed the plugin's file",
            &target,
            atomic::remove(target.here()),
        );
    }
}

/// What is not as the image has it, changing nothing.
pub fn faults(paths: &Paths, wanted: &[Wanted]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in wanted {
        let target = paths.bin_dir.join(&file.name);
        if !file.is_right(target.here()).with_context(|| target.to_string())? {
            faults.push(format!(
                "{target} is missing or not the image's: does the installer run (see its log)?"
            ));
        } else if let Err(error) = file.prove(target.here()) {
            faults.push(format!("{target}: {error:#}"));
        }
    }
    Ok(faults)
}

/// The file that has last answered VERSION, so that the plugin is not run again on every turn.
#[derive(Debug, Default)]
pub struct Proven(Option<Identity>);

impl Proven {
    fn is(&self, path: &Path) -> bool {
        self.0.is_some() && self.0 == Identity::of(path)
    }
}

impl Wanted {
    /// True when something was changed.
    fn install(&self, target: &HostPath, proven: &mut Proven) -> Result<bool> {
        let right = self.is_right(target.here())?;
        if !right {
            let image = File::open(&self.image).with_context(|| format!("open {}", self.image.display()))?;
            atomic::replace_checked(target.here(), image, Access::Mode(MODE), |temporary| {
                self.prove(temporary)
            })?;
        } else if self.is_plugin && !proven.is(target.here()) {
            self.prove(target.here())?;
        }
        if self.is_plugin {
            proven.0 = Identity::of(target.here());
        }
        Ok(!right)
    }

    fn is_right(&self, target: &Path) -> Result<bool> {
        let found = match fs::symlink_metadata(target) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found.context("look at it")?,
        };
        Ok(found.is_file()
            && found.mode() & 0o7777 == MODE
            && found.uid() == sys::effective_uid()
            && same_content(&self.image, target).context("compare it with the image")?)
    }

    /// Runs the plugin. Where the node's directory is mounted without the right to run anything from it (here, not on the
    /// node), the image's file stands in: its bytes are the same.
    fn prove(&self, path: &Path) -> Result<()> {
        if !self.is_plugin {
            return Ok(());
        }
        let may_not_run = |e: &anyhow::Error| {
            e.chain()
                .filter_map(|c| c.downcast_ref::<io::Error>())
                .any(|e| e.kind() == io::ErrorKind::PermissionDenied)
        };
        match version::ask(path) {
            Err(error) if may_not_run(&error) => version::ask(&self.image),
            answer => answer,
        }
        .context("the plugin does not run on this node")
    }
}

/// Compared by content, since a node's clock and an image's layers make times meaningless.
fn same_content(a: &Path, b: &Path) -> io::Result<bool> {
    let (a, b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let n = fill(&a, &mut left)?;
        if n != fill(&b, &mut right)? || left.get(..n) != right.get(..n) {
            return Ok(false);
        }
        if n < left.len() {
            return Ok(true);
        }
    }
}

fn fill(mut file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(room) = buffer.get_mut(filled..).filter(|r| !r.is_empty()) {
        match file.read(room)? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn files_are_the_same_by_content() {
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
        assert!(same_content(&a, &b).unwrap());
        assert!(!same_content(&a, &c).unwrap());
        assert!(!same_content(&a, &write("d", b"")).unwrap());
        assert!(same_content(&write("e", b""), &write("f", b"")).unwrap());
    }

    #[test]
    fn the_plugin_is_the_file_named_as_type_or_as_ours_or_the_only_one() {
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
            let found = wanted(&paths(dir.path())).unwrap();
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
        let error = wanted(&paths(dir.path())).unwrap_err().to_string();
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
