//! Where the API server is and what we come with: a kubeconfig, read and checked.
//!
//! Read as client-go reads it, except where the line says otherwise and why:
//!
//! - Context: one named `linkerd-cni-context` first, as linkerd-cni asks for it by name, then `current-context`.
//!   Without either client-go would look into the environment and the pod's own files; a plugin on the host has none.
//! - A context whose user or cluster does not exist: an error. client-go goes on without a credential and is told 403.
//! - A user without any credential: an error for the same reason (except for `http://`, where none is ever sent).
//! - Whatever else is missing: an error too, of the class of a file that is missing. See `missing`.
//! - `token` and `tokenFile` together: the file wins whenever it can be read, else the token, as in client-go (kube-rs
//!   takes the token, which is the one that goes stale).
//! - `certificate-authority` with `-data`, `client-certificate` with `-data`, `client-key` with `-data`: an error, as in
//!   client-go's validation (kube-rs takes the data). Empty fields count as absent.
//! - Base64 may hold any white space; client-go allows line ends only.
//! - No authority at all: the system's bundle, as in client-go.
//! - A server without a scheme means `https`. client-go says `http` when no TLS field is set: that would send the pod's
//!   data, and later its token, in the clear by a slip.
//! - `https://fd00::1:443`, which older installers wrote, means `[fd00::1]:443`.
//! - `http://`: no credential is read or sent, as in client-go.
//! - `username`, `password`: refused; API servers have not taken them since 1.19. `auth-provider`: refused; gone from
//!   client-go since 1.26.
//! - `exec` beside a token or certificate: not run, as in client-go.
//! - `as` and its kin become Impersonate headers; without `as`, `as-uid`, `as-groups` and `as-user-extra` are an error,
//!   as in client-go. To drop one would raise our rights.
//! - `disable-compression`: nothing to do, compression is never asked for.
//! - `proxy-url`: `http`, `https`, `socks5`. Proxy variables of the environment are not read: what a runtime was given to
//!   pull images through is no way to the API server.
//! - Relative paths start at the kubeconfig's own folder, an exec command with a slash too.

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
    /// A server, the bundle of its authorities, and a bearer token, without a kubeconfig around them.
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

    /// Reads the file at this path.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = read(path, "kubeconfig")?;
        let text =
            std::str::from_utf8(&bytes).map_err(|_| damaged("is not text (UTF-8)").context(&said(path)))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        Self::parse(text, folder).map_err(|e| e.context(&said(path)))
    }

    /// Checks the text of a kubeconfig that lies in this folder.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, Error> {
        let text = text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            let message = "is empty; the installer writes it: see its log on this node";
            return Err(Error::new(Class::Credential, message));
        }
        let raw = raw::parse(text).map_err(|e| match e.is_damage() {
            true => damaged(&e.to_string()),
            false => invalid(format!("{e}; write it anew")),
        })?;
        // Half of the word was cut off there, and then what stands behind it is missing.
        if let Some(kind) = raw.kind.as_deref().filter(|kind| !"Config".starts_with(kind)) {
            return Err(invalid(format!("is a {kind:?}, not a kubeconfig (kind Config)")));
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
                "holds no credential; name a tokenFile, a client certificate with its key, or an exec plugin",
            )));
        }
        Ok(config)
    }
}

/// Where the API server of this cluster is.
fn server_of(cluster: &raw::Cluster, name: &str) -> Result<Server, Error> {
    let in_cluster = |e: Error| e.context(&format!("cluster {name:?}"));
    let Some(url) = raw::text(cluster.server.as_deref()) else {
        return Err(in_cluster(missing(
            "has no server; write its URL, such as https://10.96.0.1:443",
        )));
    };
    server::parse(&url).map_err(|e| in_cluster(invalid(e)))
}

fn said(path: &Path) -> String {
    format!("kubeconfig {}", path.display())
}

#[cfg(test)]
mod tests;
