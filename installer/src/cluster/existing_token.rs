//! The token that an earlier run of the installer left on the node, and the record beside it.

use std::fs;

use evergreen_kube::{Secret, claims::Claims, clock};
use serde_json::Value;

use crate::{
    cli::config::{Config, Paths},
    cluster::{
        identity,
        token::{self, Kind, Minted},
    },
};

/// Returns the token on the node if it was requested for this configuration and is valid for another minute.
///
/// Its claims say so, with one exception: a copy of a pod token without a pod claim (from an issuer that sets none) looks
/// like an unbound token, and must keep following the pod's token. Only the record beside it tells them apart. The record
/// is written after the token and may describe the one before, so it is read only where the claims leave a doubt.
pub fn find(config: &Config) -> Option<Minted> {
    let is_copy = || record(&config.paths)["kind"] == Kind::Copy.word();
    let token = fs::read(config.paths.token_file().here()).ok()?;
    let claims = Claims::read(&token)?;
    let kind = match (&claims.kubernetes.node, &claims.kubernetes.pod) {
        (_, Some(_)) => return None,
        (Some(_), None) => Kind::NodeBound,
        (None, None) if is_copy() => return None,
        (None, None) => Kind::Unbound,
    };
    let wanted = token::wanted(config, &identity::pod_claims(&config.server));
    let is_ours = token::account_of(&claims) == Some((wanted.namespace, wanted.account));
    let same_audiences = wanted.audiences.is_empty() || wanted.audiences == claims.aud;
    let same_node = wanted
        .node
        .zip(claims.kubernetes.node)
        .is_none_or(|(wanted, bound)| wanted.0 == bound.name);
    let ends = claims.exp.filter(|ends| *ends > clock::now() + 60)?;
    let since = claims.iat.unwrap_or_else(clock::now);
    (is_ours && same_audiences && same_node).then(|| Minted::new(Secret::new(token), kind, since, ends))
}

/// Returns the record beside the token; null when there is none.
pub fn record(paths: &Paths) -> Value {
    let found = fs::read(paths.record_file().here()).ok();
    found
        .and_then(|f| serde_json::from_slice(&f).ok())
        .unwrap_or_default()
}
