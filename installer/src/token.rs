//! A token of the plugin's own. Asked for here, decided by [`super::keeper`], written by [`super::credentials`].
//!
//! A copy of the pod's token dies with the pod. One that is bound to the Node lives through every replacement of the
//! installer and still dies with the node; where the server cannot bind to nodes (before Kubernetes 1.31) an unbound one is
//! asked for, and only for an hour, since nothing but time ends it.

use std::fmt;

use evergreen_cni::kube::{
    Class, Client, Error, Secret,
    claims::Claims,
    clock,
    review::{BoundTo, TokenRequest},
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
    const ALL: [Self; 3] = [Self::NodeBound, Self::Unbound, Self::Copy];

    /// The word for it, in logs, metrics and on disk.
    pub fn word(self) -> &'static str {
        match self {
            Self::NodeBound => "node-bound",
            Self::Unbound => "unbound",
            Self::Copy => "copy",
        }
    }

    /// The kind of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Minted {
    /// A token with its times. `chance`, from 0 to 1, spreads the renewals of many nodes.
    pub fn new(token: Secret, kind: Kind, ends: i64, chance: f64) -> Self {
        let renew_at = renewal(clock::now(), ends, chance);
        Self {
            token,
            kind,
            ends,
            renew_at,
        }
    }
}

/// A moment between half and two thirds of the life that is left.
fn renewal(now: i64, ends: i64, chance: f64) -> i64 {
    let left = (ends - now).max(0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "seconds of a token's life"
    )]
    let share = (left as f64 * (0.5 + chance.clamp(0.0, 1.0) / 6.0)) as i64;
    now + share
}

/// Asks for a token, the best kind first. The error is the one of the last kind there was to try.
pub fn mint(client: &mut Client, wanted: &Wanted, chance: f64) -> Result<Minted, Error> {
    let ask = |seconds, bound| TokenRequest {
        namespace: &wanted.namespace,
        account: &wanted.account,
        audiences: &wanted.audiences,
        seconds,
        bound,
    };
    if let Some((name, uid)) = &wanted.node {
        let bound = BoundTo {
            kind: "Node",
            name,
            uid,
        };
        match client.token_request(&ask(wanted.seconds, Some(bound))) {
            Ok(given) => return Ok(Minted::new(given.token, Kind::NodeBound, given.expires, chance)),
            // What a server says that cannot do it, or that knows the node by another uid.
            Err(e) if matches!(e.class, Class::BadRequest | Class::NotFound | Class::Conflict) => {}
            Err(e) => return Err(e),
        }
    }
    let given = client.token_request(&ask(UNBOUND_SECONDS.min(wanted.seconds), None))?;
    Ok(Minted::new(given.token, Kind::Unbound, given.expires, chance))
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
        assert_eq!(renewal(1000, 900, 0.5), 1000, "one that has ended is renewed now");
    }

    #[test]
    fn the_words_of_the_kinds_come_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_word(kind.word()), Some(kind));
        }
        assert_eq!(Kind::from_word("inline"), None);
    }
}
