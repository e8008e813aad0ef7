//! A token of the plugin's own. Asked for here, decided by [`super::credential_thread`], written by `node::credentials`.
//!
//! A copy of the pod's token dies with the pod. One that is bound to the Node lives through every replacement of the
//! installer and still dies with the node; where the server cannot bind to nodes (before Kubernetes 1.31) an unbound one is
//! asked for, and only for an hour, since nothing but time ends it.

mod existing;

use std::{fmt, path::PathBuf};

use evergreen_kube::{Class, Client, Error, Secret, chance, claims::Claims, clock};

pub use self::existing::{minted_before, recorded};
use crate::{
    cli::config::Config,
    cluster::{
        requests::{BoundTo, Requests, TokenRequest},
        volume::Volume,
    },
};

/// Life of an unbound token, in seconds.
const UNBOUND_SECONDS: u64 = 3600;

/// How the token on the node was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By TokenRequest, bound to the Node.
    NodeBound,
    /// By TokenRequest, bound to nothing.
    Unbound,
    /// As the kubelet wrote it for the installer's pod.
    Copy,
    /// None of ours: the kubelet's own volume is used.
    KubeletVolume,
}

/// Which token belongs on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// Not decided yet: a valid token on the node stays.
    Undecided,
    /// This requested token.
    Minted(Minted),
    /// None of ours: the kubelet's own volume is used.
    Volume(Volume),
    /// A copy of the pod's token, for this reason: one of a few texts, so that the record of it seldom changes.
    Copy(&'static str),
}

/// Whose token is asked for, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The ServiceAccount's namespace.
    pub namespace: String,
    /// Its name.
    pub account: String,
    /// For whom; empty for the API server itself.
    pub audiences: Vec<String>,
    /// For how long, in seconds.
    pub seconds: u64,
    /// The node's name and, when it is known, its uid.
    pub node: Option<(String, String)>,
}

/// A token that was given to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    /// The token.
    pub token: Secret,
    /// How it was made.
    pub kind: Kind,
    /// When it ends, in seconds since 1970.
    pub ends: i64,
    /// When the next one is to be asked for.
    pub renew_at: i64,
}

impl Kind {
    /// The word for it, in logs, metrics and on disk.
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
            _ => [config.place.token_file(), config.place.ca_file()].map(|file| file.here().to_path_buf()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Minted {
    /// A token that lives from `since` to `ends`.
    pub fn new(token: Secret, kind: Kind, since: i64, ends: i64) -> Self {
        Self {
            token,
            kind,
            ends,
            renew_at: renewal(since, ends, chance()),
        }
    }
}

/// A moment between half and two thirds of a life. `chance`, from 0 to 1, spreads the renewals of many nodes.
fn renewal(since: i64, ends: i64, chance: f64) -> i64 {
    let life = ends.saturating_sub(since).max(0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "seconds of a token's life"
    )]
    let share = (life as f64 * (0.5 + chance.clamp(0.0, 1.0) / 6.0)) as i64;
    since.saturating_add(share)
}

/// Whose token is wanted: what was configured, and for the rest what the pod's own token says.
pub fn wanted(config: &Config, pods: &Claims) -> Wanted {
    let own = account_of(pods).unwrap_or_default();
    let (namespace, account) = match &config.account {
        Some((namespace, name)) if namespace.is_empty() => (own.0, name.clone()),
        Some(account) => account.clone(),
        None => own,
    };
    let claimed = pods.kubernetes.node.clone().map(|n| (n.name, n.uid));
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

/// Asks for a token, the best kind first. The error is the one of the last kind there was to try.
pub fn mint(client: &mut Client, wanted: &Wanted) -> Result<Minted, Error> {
    if let Some((name, uid)) = &wanted.node {
        // Not every installer may read nodes; without a uid the server takes the one there is.
        let asked = if uid.is_empty() {
            client.node(name).map(|node| node.uid).unwrap_or_default()
        } else {
            uid.clone()
        };
        let bound = BoundTo {
            kind: "Node",
            name,
            uid: &asked,
        };
        match client.token_request(&request(wanted, wanted.seconds, Some(bound))) {
            Ok(given) => {
                return Ok(Minted::new(
                    given.token,
                    Kind::NodeBound,
                    clock::now(),
                    given.expires,
                ));
            }
            // What a server says that cannot do it, or that knows the node by another uid.
            Err(e) if matches!(e.class, Class::BadRequest | Class::NotFound | Class::Conflict) => {}
            Err(e) => return Err(e),
        }
    }
    let given = client.token_request(&request(wanted, UNBOUND_SECONDS.min(wanted.seconds), None))?;
    Ok(Minted::new(
        given.token,
        Kind::Unbound,
        clock::now(),
        given.expires,
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

/// Namespace and name of the account that a token is of.
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
    fn a_token_is_renewed_between_half_and_two_thirds_of_its_life() {
        assert_eq!(renewal(1000, 1600, 0.0), 1300);
        assert_eq!(renewal(1000, 1600, 1.0), 1400);
        assert_eq!(renewal(1000, 900, 0.5), 1000);
    }
}
