//! A kubeconfig, parsed and checked: where the API server is and with which credentials.
//!
//! As in client-go, with the differences noted:
//!
//! - Context: `linkerd-cni-context` if it exists, since linkerd-cni asks for it by name, else `current-context`. Without
//!   either client-go reads the environment and the pod's own files; a plugin on the host has none.
//! - A context whose user or cluster does not exist is an error. client-go sends no credential and gets a 403.
//! - A user without a credential is an error for the same reason (except for `http://`, where none is sent).
//! - Any other missing part is an error of the class of a missing file. See `missing`.
//! - `token` and `tokenFile`: the file wins if it is readable, else the token (kube-rs prefers the token, which is the one
//!   that goes stale).
//! - `certificate-authority`, `client-certificate` or `client-key` together with its `-data` field is an error (kube-rs uses
//!   the data). Empty fields count as absent.
//! - Base64 may contain any white space; client-go allows line ends only.
//! - No CA: the system bundle.
//! - A server without a scheme means `https`. client-go assumes `http` if no TLS field is set: a slip would send the pod's
//!   data, and later its token, in the clear.
//! - `https://fd00::1:443`, which older installers wrote, means `[fd00::1]:443`.
//! - `http://`: no credential is read or sent.
//! - `username`, `password`: rejected; API servers do not accept them since 1.19. `auth-provider`: rejected; client-go removed
//!   it in 1.26.
//! - `exec` beside a token or certificate is not run.
//! - `as` and related fields become Impersonate headers; `as-uid`, `as-groups` and `as-user-extra` without `as` are an error,
//!   since to drop them would raise our rights.
//! - `disable-compression` has no effect: we never request compression.
//! - `proxy-url`: `http`, `https`, `socks5`. Proxy variables of the environment are ignored: a runtime's proxy for images is
//!   not a way to the API server.
//! - Relative paths, also of an exec command with a slash, start at the kubeconfig's folder.

mod entries;
mod exec;
mod fields;
mod model;
mod problem;
mod raw;
mod server;

use std::path::Path;

use self::{
    entries::{choose, named, unique},
    problem::{damaged, invalid, missing},
};
pub use self::{
    model::{ClientCertificate, Exec, ExecVersion, Identity, Kubeconfig, Token, Trust},
    server::Server,
};
use crate::{
    error::{Class, Error},
    source::{Source, read},
};

impl Kubeconfig {
    /// A configuration of a server, its CA bundle and a bearer token, without a file.
    pub fn of(server: &str, bundle: Source, token: Source) -> Result<Self, Error> {
        Ok(Self {
            server: server::parse(server).map_err(invalid)?,
            trust: Trust::Bundle(bundle),
            tls_server_name: None,
            proxy: None,
            identity: Identity {
                token: Some(match token {
                    Source::Data(secret) => Token::Inline(secret),
                    file @ Source::File(_) => Token::File(file, None),
                }),
                ..Identity::default()
            },
            impersonate: Vec::new(),
        })
    }

    /// Reads and checks the file at this path.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = read(path, "kubeconfig")?;
        let text =
            std::str::from_utf8(&bytes).map_err(|_| damaged("is not UTF-8 text").context(&context(path)))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        Self::parse(text, folder).map_err(|e| e.context(&context(path)))
    }

    /// Parses and checks the text of a kubeconfig in this folder.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, Error> {
        let text = text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            let message = "is empty; the installer writes this file: check its log on this node";
            return Err(Error::new(Class::Credential, message));
        }
        let raw = raw::parse(text)?;
        // A prefix of the word means a truncated file; what follows it is then missing.
        if let Some(kind) = raw.kind.as_deref().filter(|kind| !"Config".starts_with(kind)) {
            return Err(invalid(format!(
                "is of kind {kind:?}, not a kubeconfig (kind Config)"
            )));
        }
        Self::check(&raw, folder)
    }

    fn check(raw: &raw::Config, folder: &Path) -> Result<Self, Error> {
        let clusters = raw.clusters.as_deref().unwrap_or_default();
        let users = raw.users.as_deref().unwrap_or_default();
        let contexts = raw.contexts.as_deref().unwrap_or_default();
        unique("clusters", clusters)?;
        unique("users", users)?;
        unique("contexts", contexts)?;

        let (context_name, context) = choose(contexts, raw.current_context.as_deref())?;
        let cluster = named(context.cluster.as_deref(), clusters, "cluster", context_name)?;
        let server = server_of(cluster, context.cluster.as_deref().unwrap_or_default())?;
        let mut config = Self {
            trust: fields::trust(cluster, &server, folder)?,
            tls_server_name: raw::text(cluster.tls_server_name.as_deref()),
            proxy: fields::proxy(cluster)?,
            identity: Identity::default(),
            impersonate: Vec::new(),
            server,
        };
        let user_name = context.user.as_deref().unwrap_or_default();
        if !config.server.is_tls() && user_name.is_empty() {
            return Ok(config);
        }
        let user = named(context.user.as_deref(), users, "user", context_name)?;
        let in_user = |e: Error| e.context(&format!("user {user_name:?}"));
        config.identity = fields::identity(user, cluster, folder).map_err(in_user)?;
        config.impersonate = fields::impersonation(user).map_err(in_user)?;
        if !config.server.is_tls() {
            config.identity = Identity::default();
        } else if config.identity == Identity::default() {
            return Err(in_user(missing(
                "has no credential; set tokenFile, client-certificate with client-key, or exec",
            )));
        }
        Ok(config)
    }
}

/// Returns the API server of this cluster.
fn server_of(cluster: &raw::Cluster, name: &str) -> Result<Server, Error> {
    let in_cluster = |e: Error| e.context(&format!("cluster {name:?}"));
    let Some(url) = raw::text(cluster.server.as_deref()) else {
        return Err(in_cluster(missing(
            "has no server; set its URL, such as https://10.96.0.1:443",
        )));
    };
    server::parse(&url).map_err(|e| in_cluster(invalid(e)))
}

fn context(path: &Path) -> String {
    format!("kubeconfig {}", path.display())
}

#[cfg(test)]
mod tests;
