//! This pod's identity: its token, CA bundle and namespace as the kubelet writes them into the pod.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use evergreen_kube::claims::Claims;

use crate::cli::config::Server;

/// The pod's token and CA bundle, both from one generation of the projected volume.
pub struct PodFiles {
    /// The token.
    pub token: Result<Vec<u8>>,
    /// The CA bundle.
    pub ca: Result<Vec<u8>>,
}

impl PodFiles {
    /// Reads both files. The kubelet may replace the symlink `..data` of the volume and delete the old directory behind it
    /// at any time; a read that this interrupts is repeated.
    pub fn read(server: &Server) -> Self {
        let (token_file, ca_file) = (&server.token_file, &server.ca_file);
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

/// Returns the pod's own token.
pub fn pod_token(server: &Server) -> Result<Vec<u8>> {
    PodFiles::read(server).token
}

/// Returns the claims of the pod's own token; empty claims when it cannot be read or is not a JWT.
pub fn pod_claims(server: &Server) -> Claims {
    pod_token(server)
        .ok()
        .and_then(|token| Claims::read(&token))
        .unwrap_or_default()
}

/// Returns the pod's namespace, from the file beside the token or else from the token's claims.
pub fn pod_namespace(server: &Server) -> Option<String> {
    let known = |namespace: &String| !namespace.is_empty();
    server
        .namespace_file()
        .or_else(|| Some(pod_claims(server).kubernetes.namespace).filter(known))
}

/// Returns the directory that `..data` points to, if the file is in a volume that the kubelet writes.
fn generation(file: &Path) -> Option<PathBuf> {
    let dir = file.parent()?;
    Some(dir.join(fs::read_link(dir.join("..data")).ok()?))
}

/// Returns the token without surrounding white space.
fn usable_token(bytes: &[u8]) -> Result<Vec<u8>> {
    let token = bytes.trim_ascii();
    if token.is_empty() {
        bail!("the token is empty; the token on the node is kept until a valid one arrives");
    }
    if !token.iter().all(u8::is_ascii_graphic) {
        bail!(
            "the token contains bytes that are not printable ASCII; the token on the node is kept until a valid one arrives"
        );
    }
    Ok(token.to_vec())
}
