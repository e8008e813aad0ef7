//! What is known of the token on the node. The token says nearly all of it itself; a file beside it says it to people.

use std::fs;

use evergreen_kube::{Secret, claims::Claims, clock};
use serde_json::{Value, json};

use super::{in_use, pod_token, record_file, token_file};
use crate::{
    cli::config::{Config, Paths},
    cluster::{
        credential_thread::Token,
        token::{self, Kind, Minted},
    },
    health::report::Credential,
    node::ca,
};

/// The token on the node, when it is one that was requested for this configuration and still has a while to live. It says
/// all of that itself, but for one thing: a copy of a pod's token that names no pod (an issuer of another kind made it)
/// looks like an unbound one, and must go on following the pod's. That is in the record beside it, which is written after
/// the token and so may be one token behind: where the token can tell, it is not asked.
pub fn minted_before(config: &Config) -> Option<Minted> {
    let is_copy = || recorded(&config.place)["kind"] == Kind::Copy.word();
    let token = fs::read(token_file(&config.place).here()).ok()?;
    let claims = Claims::read(&token)?;
    let kind = match (&claims.kubernetes.node, &claims.kubernetes.pod) {
        (_, Some(_)) => return None,
        (Some(_), None) => Kind::NodeBound,
        (None, None) if is_copy() => return None,
        (None, None) => Kind::Unbound,
    };
    let pods = pod_token(config)
        .ok()
        .and_then(|t| Claims::read(&t))
        .unwrap_or_default();
    let wanted = token::wanted(config, &pods);
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

/// What the status says of it.
pub fn facts(config: &Config, wanted: &Token, kind: Kind) -> Credential {
    let [token, ca] = in_use(config, wanted).map(|file| fs::read(file).unwrap_or_default());
    Credential {
        kind,
        ends: Claims::read(&token).and_then(|claims| claims.exp),
        ca_ends: ca::ends(&ca),
    }
}

/// What lies beside the token, for people: how it was made, why so, and when it ends. A reason that is not known yet does
/// not replace one that is.
pub fn record(place: &Paths, wanted: &Token, kind: Kind) -> Vec<u8> {
    let found = recorded(place);
    let known = (found["kind"] == kind.word())
        .then(|| found["because"].as_str())
        .flatten();
    let because = match wanted {
        Token::Copy(because) => because,
        Token::Minted(_) | Token::Volume(_) => "",
        Token::DecideError => known.unwrap_or_default(),
    };
    let ends = match wanted {
        Token::Minted(minted) => Some(clock::rfc3339(minted.ends)),
        Token::DecideError => found["ends"].as_str().map(str::to_owned),
        Token::Copy(_) | Token::Volume(_) => None,
    };
    let record = json!({"kind": kind.word(), "because": because, "ends": ends});
    format!("{record:#}\n").into_bytes()
}

/// What the record says now; null when there is none.
fn recorded(place: &Paths) -> Value {
    let found = fs::read(record_file(place).here()).ok();
    found
        .and_then(|f| serde_json::from_slice(&f).ok())
        .unwrap_or_default()
}
