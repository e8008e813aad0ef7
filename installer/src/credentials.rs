//! The plugin's way to the API server: token, CA bundle and the kubeconfig that names them. Only the first two ever change,
//! each by a rename of its own. Touches our own directory and the kubeconfig.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::{
    atomic::{self, Access},
    config::{Config, Place},
    host::HostPath,
    report::Report,
    sys,
};

const SECRET: Access<'static> = Access::Mode(SECRET_MODE);
const SECRET_MODE: u32 = 0o600;
const OWN_DIR_MODE: u32 = 0o700;

/// What the pod's projected volume holds, from one generation of it.
struct Source {
    token: Result<Vec<u8>>,
    ca: Result<Vec<u8>>,
}

/// Makes the node's files right. True when the plugin can work with them.
pub fn make_it_so(config: &Config, report: &mut Report) -> bool {
    let own = &config.place.own_dir;
    if let Err(error) = own_directory(own, report) {
        report.failed("credentials", own, &error);
        return false;
    }
    for leftover in atomic::sweep(own.here()) {
        report.changed(
            "removed a leftover",
            &own.join(leftover.file_name().unwrap_or_default()),
        );
    }
    let source = Source::read(&config.token_file, &config.ca_file);
    let ca = keep(&ca_file(&config.place), source.ca, "ca", &config.ca_file, report);
    let token = keep(
        &token_file(&config.place),
        source.token,
        "token",
        &config.token_file,
        report,
    );
    // The kubeconfig last: it must not name what is not there.
    let kubeconfig = Ok(kubeconfig(config).into_bytes());
    ca && token
        && keep(
            &config.place.kubeconfig,
            kubeconfig,
            "kubeconfig",
            Path::new(""),
            report,
        )
}

/// Takes them away, the kubeconfig first.
pub fn take_away(place: &Place, report: &mut Report) {
    for file in [place.kubeconfig.clone(), token_file(place), ca_file(place)] {
        match atomic::remove(file.here()) {
            Ok(true) => report.changed("removed", &file),
            Ok(false) => {}
            Err(error) => report.failed("credentials", &file, &error),
        }
    }
    atomic::sweep(place.own_dir.here());
    match fs::remove_dir(place.own_dir.here()) {
        Ok(()) => report.changed("removed our directory", &place.own_dir),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => report.failed(
            "credentials",
            &place.own_dir,
            &anyhow::Error::new(e).context("remove our directory"),
        ),
    }
}

fn token_file(place: &Place) -> HostPath {
    place.own_dir.join("token")
}

fn ca_file(place: &Place) -> HostPath {
    place.own_dir.join("ca.crt")
}

/// JSON, which is YAML too and which no reader can misunderstand. The names are those that linkerd-cni uses.
fn kubeconfig(config: &Config) -> String {
    let value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {
            "server": config.server,
            "certificate-authority": ca_file(&config.place).host(),
        }}],
        "users": [{"name": "linkerd-cni", "user": {"tokenFile": token_file(&config.place).host()}}],
        "contexts": [{"name": "linkerd-cni-context", "context": {"cluster": "local", "user": "linkerd-cni"}}],
        "current-context": "linkerd-cni-context",
    });
    format!("{value:#}\n")
}

/// Makes one secret file be this content; a source that is not usable leaves what is there. True when it is right.
fn keep(
    file: &HostPath,
    content: Result<Vec<u8>>,
    operation: &'static str,
    source: &Path,
    report: &mut Report,
) -> bool {
    let content = match content {
        Ok(content) => content,
        Err(error) => {
            report.problem(operation, format_args!("{}: {error:#}", source.display()));
            // An older one may still be good; the plugin says so itself when it is not.
            return is_secret(file.here()).unwrap_or(false);
        }
    };
    match write_secret(file.here(), &content) {
        Ok(changed) => {
            if changed {
                report.changed("wrote", file);
            }
            true
        }
        Err(error) => {
            report.failed(operation, file, &error);
            false
        }
    }
}

/// True when something was written.
fn write_secret(path: &Path, content: &[u8]) -> Result<bool> {
    if is_secret(path).context("look at it")? && fs::read(path).context("read it")? == content {
        return Ok(false);
    }
    atomic::replace(path, content, SECRET)?;
    Ok(true)
}

/// True for a plain file that only we can read.
fn is_secret(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(m) => Ok(m.is_file() && m.mode() & 0o7777 == SECRET_MODE && m.uid() == sys::effective_uid()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn own_directory(dir: &HostPath, report: &mut Report) -> Result<()> {
    match fs::DirBuilder::new().mode(OWN_DIR_MODE).create(dir.here()) {
        Ok(()) => report.changed("made our directory", dir),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e).context("make our directory"),
    }
    let found = fs::symlink_metadata(dir.here()).context("look at our directory")?;
    if !found.is_dir() {
        bail!("our directory is something else: remove it");
    }
    if found.mode() & 0o7777 != OWN_DIR_MODE {
        fs::set_permissions(dir.here(), fs::Permissions::from_mode(OWN_DIR_MODE)).context("set its mode")?;
        report.changed("closed our directory to others", dir);
    }
    Ok(())
}

impl Source {
    /// Reads both files. Where they lie in one projected volume they come from one generation of it: the kubelet replaces
    /// the link `..data` and then deletes the old directory behind it, at any time.
    fn read(token_file: &Path, ca_file: &Path) -> Self {
        let mut read = Self::read_once(token_file, ca_file);
        for _ in 0..10 {
            let vanished = |r: &Result<Vec<u8>>| {
                r.as_ref().is_err_and(|e| {
                    e.downcast_ref::<io::Error>()
                        .is_some_and(|e| e.kind() == io::ErrorKind::NotFound)
                })
            };
            if !vanished(&read.token) && !vanished(&read.ca) {
                break;
            }
            read = Self::read_once(token_file, ca_file);
        }
        read
    }

    fn read_once(token_file: &Path, ca_file: &Path) -> Self {
        let shared = token_file.parent() == ca_file.parent();
        let token_in = generation(token_file);
        let ca_in = if shared {
            token_in.clone()
        } else {
            generation(ca_file)
        };
        let read = |dir: Option<PathBuf>, file: &Path| match (dir, file.file_name()) {
            (Some(dir), Some(name)) => fs::read(dir.join(name)),
            _ => fs::read(file),
        };
        Self {
            token: read(token_in, token_file)
                .context("read this pod's token")
                .and_then(|t| usable_token(&t)),
            ca: read(ca_in, ca_file)
                .context("read the CA bundle")
                .and_then(usable_ca),
        }
    }
}

/// The directory that `..data` stands for now, if the file is in a volume that the kubelet writes.
fn generation(file: &Path) -> Option<PathBuf> {
    let dir = file.parent()?;
    Some(dir.join(fs::read_link(dir.join("..data")).ok()?))
}

/// The token without the newline some writers add.
fn usable_token(bytes: &[u8]) -> Result<Vec<u8>> {
    let token = bytes.trim_ascii();
    if token.is_empty() {
        bail!("the token is empty; the one on the node stays until a good one comes");
    }
    if !token.iter().all(u8::is_ascii_graphic) {
        bail!("the token holds bytes that no token has; the one on the node stays until a good one comes");
    }
    Ok(token.to_vec())
}

/// The bundle as it is, when there is a certificate in it.
fn usable_ca(bytes: Vec<u8>) -> Result<Vec<u8>> {
    let holds = |mark: &[u8]| bytes.windows(mark.len()).any(|w| w == mark);
    if !holds(b"-----BEGIN CERTIFICATE-----") || !holds(b"-----END CERTIFICATE-----") {
        bail!("no certificate in the CA bundle; the one on the node stays until a good one comes");
    }
    Ok(bytes)
}
