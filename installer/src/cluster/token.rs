//! The plugin's token. Requested here, chosen by [`super::credential_thread`], written by `node::credentials`.
//!
//! A copy of the pod's token dies with the pod. A token bound to the Node outlives every installer pod, and still dies with
//! the node. API servers before Kubernetes 1.31 cannot bind to nodes; there the token is unbound, and requested for an hour
//! only, because nothing but its expiry ends it.

use std::path::PathBuf;

use evergreen_kube::{Class, Client, Error, Secret, chance, claims::Claims, clock};

use crate::{
    cli::config::Config,
    cluster::{
        requests::{self, BoundTo, TokenRequest},
        volume::Volume,
    },
};

/// The lifetime of an unbound token, in seconds.
const UNBOUND_SECONDS: u64 = 3600;

/// The kind of the token on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Requested, bound to the Node.
    NodeBound,
    /// Requested, bound to nothing.
    Unbound,
    /// A copy of the installer pod's token.
    Copy,
    /// The token in the kubelet's volume; none is copied.
    KubeletVolume,
}

/// Which token belongs on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// Not decided yet: a valid token on the node stays.
    Undecided,
    /// This requested token.
    Minted(Minted),
    /// The one in the kubelet's volume; none is copied.
    Volume(Volume),
    /// A copy of the pod's token, for this reason: one of a few texts, so that the record of it seldom changes.
    Copy(&'static str),
}

/// A token to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The ServiceAccount's namespace.
    pub namespace: String,
    /// Its name.
    pub account: String,
    /// The audiences; empty for the API server's own.
    pub audiences: Vec<String>,
    /// The lifetime, in seconds.
    pub seconds: u64,
    /// The node's name and its UID, empty if unknown.
    pub node: Option<(String, String)>,
}

/// A token that the API server issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    /// The token.
    pub token: Secret,
    /// Its kind.
    pub kind: Kind,
    /// When it expires, in seconds since 1970.
    pub ends: i64,
    /// When to request the next one.
    pub renew_at: i64,
}

impl Kind {
    /// Returns the word for it in logs, metrics and on disk.
    pub fn word(self) -> &'static str {
        match self {
            Self::NodeBound => "node-bound",
            Self::Unbound => "unbound",
            Self::Copy => "copy",
            Self::KubeletVolume => "kubelet-volume",
        }
    }
}

impl Token {
    /// Returns the token file and CA file that the plugin uses, as this process can read them.
    pub fn files(&self, config: &Config) -> [PathBuf; 2] {
        match self {
            Self::Volume(_) => [config.server.token_file.clone(), config.server.ca_file.clone()],
            _ => [config.paths.token_file(), config.paths.ca_file()].map(|file| file.here().to_path_buf()),
        }
    }
}

impl Minted {
    /// A token that is valid from `since` to `ends`.
    pub fn new(token: Secret, kind: Kind, since: i64, ends: i64) -> Self {
        Self {
            token,
            kind,
            ends,
            renew_at: renewal(since, ends, chance()),
        }
    }
}

/// Returns a time between half and two thirds of a lifetime. `chance`, from 0 to 1, spreads the renewals of many nodes.
fn renewal(since: i64, ends: i64, chance: f64) -> i64 {
    let life = ends.saturating_sub(since).max(0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a lifetime in seconds is small"
    )]
    let share = (life as f64 * (0.5 + chance.clamp(0.0, 1.0) / 6.0)) as i64;
    since.saturating_add(share)
}

/// Returns the token to request: as configured, and for the rest from the claims of the pod's own token.
pub fn wanted(config: &Config, pod: &Claims) -> Wanted {
    let own = account_of(pod).unwrap_or_default();
    let (namespace, account) = match &config.account {
        Some((namespace, name)) if namespace.is_empty() => (own.0, name.clone()),
        Some(account) => account.clone(),
        None => own,
    };
    let claimed = pod.kubernetes.node.clone().map(|n| (n.name, n.uid));
    let node = match (&config.node_name, claimed) {
        (Some(name), Some((claimed, uid))) if *name == claimed => Some((claimed, uid)),
        (Some(name), _) => Some((name.clone(), String::new())),
        (None, claimed) => claimed,
    };
    Wanted {
        namespace,
        account,
        audiences: config.audiences.clone(),
        seconds: config.token_seconds,
        node,
    }
}

/// Requests a token, the best kind first. The error is that of the last kind that was tried.
pub fn mint(client: &mut Client, wanted: &Wanted) -> Result<Minted, Error> {
    if let Some((name, uid)) = &wanted.node {
        // RBAC may deny reading nodes; without a UID the API server binds to the node of that name.
        let uid = if uid.is_empty() {
            requests::node(client, name)
                .map(|node| node.uid)
                .unwrap_or_default()
        } else {
            uid.clone()
        };
        let bound = BoundTo {
            kind: "Node",
            name,
            uid: &uid,
        };
        match requests::token_request(client, &request(wanted, wanted.seconds, Some(bound))) {
            Ok(issued) => {
                let now = clock::now();
                return Ok(Minted::new(issued.token, Kind::NodeBound, now, issued.expires));
            }
            // The API server cannot bind to nodes, or knows the node by another UID.
            Err(e) if matches!(e.class, Class::BadRequest | Class::NotFound | Class::Conflict) => {}
            Err(e) => return Err(e),
        }
    }
    let issued = requests::token_request(
        client,
        &request(wanted, UNBOUND_SECONDS.min(wanted.seconds), None),
    )?;
    Ok(Minted::new(
        issued.token,
        Kind::Unbound,
        clock::now(),
        issued.expires,
    ))
}

fn request<'a>(wanted: &'a Wanted, seconds: u64, bound: Option<BoundTo<'a>>) -> TokenRequest<'a> {
    TokenRequest {
        namespace: &wanted.namespace,
        account: &wanted.account,
        audiences: &wanted.audiences,
        seconds,
        bound,
    }
}

/// Returns namespace and name of the ServiceAccount that the claims belong to.
pub fn account_of(claims: &Claims) -> Option<(String, String)> {
    let (namespace, name) = claims
        .sub
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    Some((namespace.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_is_between_half_and_two_thirds() {
        assert_eq!(renewal(1000, 1600, 0.0), 1300);
        assert_eq!(renewal(1000, 1600, 1.0), 1400);
        assert_eq!(renewal(1000, 900, 0.5), 1000);
    }
}
