//! What is known of the token on the node. The token says nearly all of it itself; a file beside it says it to people.

use std::fs;

use evergreen_kube::{claims::Claims, clock};
use serde_json::json;

use crate::{
    cli::config::{Config, Paths},
    cluster::{
        existing_token,
        token::{Kind, Token},
    },
    node::{ca, report::Credential},
};

/// What the status says of it.
pub fn facts(config: &Config, wanted: &Token, kind: Kind) -> Credential {
    let [token, ca] = wanted
        .files(config)
        .map(|file| fs::read(file).unwrap_or_default());
    Credential {
        kind,
        ends: Claims::read(&token).and_then(|claims| claims.exp),
        ca_ends: ca::ends(&ca),
    }
}

/// What lies beside the token, for people: how it was made, why so, and when it ends. A reason that is not known yet does
/// not replace one that is.
pub fn record(paths: &Paths, wanted: &Token, kind: Kind) -> Vec<u8> {
    let found = existing_token::record(paths);
    let known = (found["kind"] == kind.word())
        .then(|| found["because"].as_str())
        .flatten();
    let because = match wanted {
        Token::Copy(because) => because,
        Token::Minted(_) | Token::Volume(_) => "",
        Token::Undecided => known.unwrap_or_default(),
    };
    let ends = match wanted {
        Token::Minted(minted) => Some(clock::rfc3339(minted.ends)),
        Token::Undecided => found["ends"].as_str().map(str::to_owned),
        Token::Copy(_) | Token::Volume(_) => None,
    };
    let record = json!({"kind": kind.word(), "because": because, "ends": ends});
    format!("{record:#}\n").into_bytes()
}
