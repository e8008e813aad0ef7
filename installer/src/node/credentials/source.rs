//! The pod's token and CA bundle as the kubelet writes them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// What the pod's projected volume holds, from one generation of it.
pub struct Source {
    /// The token.
    pub token: Result<Vec<u8>>,
    /// The CA bundle.
    pub ca: Result<Vec<u8>>,
}

impl Source {
    /// Reads both files. Where they lie in one projected volume they come from one generation of it: the kubelet replaces
    /// the link `..data` and then deletes the old directory behind it, at any time.
    pub fn read(token_file: &Path, ca_file: &Path) -> Self {
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
            ca: read(ca_in, ca_file).context("read the CA bundle"),
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
