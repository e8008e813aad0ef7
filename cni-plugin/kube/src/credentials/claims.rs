//! What a ServiceAccount token says of itself (RFC 7519, and Kubernetes' private claim `kubernetes.io`).
//!
//! Read for messages and reports, and never believed: only the API server can tell whether the token still lives. It
//! answers 401 whatever the reason (expired, revoked, of another key or audience), so the claims are all there is to
//! tell them apart. The token itself is never part of a message.

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer};

use crate::clock::{rfc3339, span};

/// Tokens are taken for this long after their end and before their beginning (go-jose's leeway), in seconds.
const LEEWAY: i64 = 60;

/// The claims that can explain something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Claims {
    /// Who issued it.
    pub iss: String,
    /// `system:serviceaccount:<namespace>:<name>`
    pub sub: String,
    /// For whom it is.
    #[serde(deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    /// When it ends, in seconds since 1970.
    pub exp: Option<i64>,
    /// When it begins.
    pub nbf: Option<i64>,
    /// When it was issued.
    pub iat: Option<i64>,
    /// What Kubernetes adds.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Kubernetes,
}

/// The claim `kubernetes.io`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Kubernetes {
    /// The ServiceAccount's namespace.
    pub namespace: String,
    /// The pod it dies with.
    pub pod: Option<Reference>,
    /// The node it dies with; beside a pod it is only said, not checked.
    pub node: Option<Reference>,
    /// The secret it dies with.
    pub secret: Option<Reference>,
}

/// An object by name and uid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Claims {
    /// Reads a JWT; none when it is not one.
    pub fn read(token: &[u8]) -> Option<Self> {
        let mut parts = token.split(|b| *b == b'.');
        let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        // Without padding as the standard has it, or with it as some libraries write it.
        let unpadded = claims.split(|b| *b == b'=').next()?;
        let claims = URL_SAFE_NO_PAD.decode(unpadded).ok()?;
        serde_json::from_slice(&claims).ok()
    }

    /// Why a server may refuse it, as the end of a sentence that begins with the token.
    pub(super) fn why_refused(&self, now: i64, host: &str) -> String {
        let mut text = format!("(of {})", short(&self.sub));
        let sure = self.out_of_time(now);
        match &sure {
            Some(reason) => {
                let _ = write!(text, " {reason}");
            }
            None => {
                if let Some(exp) = self.exp {
                    let _ = write!(text, " is good until {} by its own word", rfc3339(exp));
                }
            }
        }
        let kubernetes = &self.kubernetes;
        if let Some(pod) = &kubernetes.pod {
            let _ = write!(
                text,
                "; it is bound to pod {}/{} (uid {}) and dies with it: is that still this node's installer?",
                short(&kubernetes.namespace),
                short(&pod.name),
                short(&pod.uid)
            );
        }
        if let Some(node) = &kubernetes.node {
            let _ = write!(
                text,
                "; it is bound to node {} (uid {})",
                short(&node.name),
                short(&node.uid)
            );
            if !host.is_empty() && !same_host(&node.name, host) {
                let _ = write!(text, ", and this host is called {}", short(host));
            }
        }
        if self.is_for_somebody_else() {
            let audiences: Vec<String> = self.aud.iter().take(3).map(|a| short(a)).collect();
            let _ = write!(
                text,
                "; it is for the audience {}, not for the API server",
                audiences.join(", ")
            );
        }
        if sure.is_none() {
            text.push_str(
                "; an API server that has new signing keys, or has lost the ServiceAccount, refuses it before its time",
            );
        }
        text.push_str("; the installer has to write a new one: see its log on this node");
        text
    }

    /// Said only when it is beyond doubt, the server's leeway included.
    fn out_of_time(&self, now: i64) -> Option<String> {
        if let Some(exp) = self.exp.filter(|exp| now > exp.saturating_add(LEEWAY)) {
            let ago = span(now.saturating_sub(exp));
            return Some(format!("expired {ago} ago ({})", rfc3339(exp)));
        }
        let begins = self.nbf.max(self.iat)?;
        (now + LEEWAY < begins).then(|| {
            let at = rfc3339(begins);
            format!(
                "is not valid before {at}, which is {} from now: is this node's clock right?",
                span(begins.saturating_sub(now))
            )
        })
    }

    /// The API server's own audience is its issuer by default, and some `kubernetes.default.svc` nearly always.
    fn is_for_somebody_else(&self) -> bool {
        !self.aud.is_empty()
            && !self
                .aud
                .iter()
                .any(|a| *a == self.iss || a.contains("kubernetes.default") || a == "api")
    }
}

/// A claim in a message: quoted, so that it cannot pass for our own words, and short.
fn short(claim: &str) -> String {
    format!("{:?}", claim.chars().take(120).collect::<String>())
}

/// A node may go by its host's short name or the full one.
fn same_host(node: &str, host: &str) -> bool {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    first(node) == first(host)
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::One(audience) => vec![audience],
        Either::Many(audiences) => audiences,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_796_083_199; // 2026-11-30T23:59:59Z

    fn token(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    fn why(claims: &Value) -> String {
        let claims = token(claims);
        let why = Claims::read(claims.as_bytes())
            .unwrap()
            .why_refused(NOW, "node1.example.org");
        assert!(!why.contains(&claims), "{why}");
        why
    }

    #[test]
    fn the_claims_say_which_of_the_reasons_it_is() {
        let base = json!({"iss": "https://i", "aud": ["https://i"], "sub": "system:serviceaccount:l:l", "exp": NOW + 3600,
            "iat": NOW - 60, "nbf": NOW - 60, "kubernetes.io": {"namespace": "l"}});
        let with = |key: &str, value: Value| {
            let mut claims = base.clone();
            claims[key] = value;
            why(&claims)
        };
        for (text, says) in [
            (
                why(&base),
                "is good until 2026-12-01T00:59:59Z by its own word; an API server that has new signing keys",
            ),
            (
                with("exp", json!(NOW - 7200)),
                "expired 2h ago (2026-11-30T21:59:59Z)",
            ),
            (with("exp", json!(NOW - 30)), "is good until"),
            (
                with("nbf", json!(NOW + 600)),
                "is not valid before 2026-12-01T00:09:59Z, which is 10m from now: is this node's clock right?",
            ),
            (with("nbf", json!(NOW + 30)), "is good until"),
            (
                with("aud", json!("vault")),
                "it is for the audience \"vault\", not for the API server",
            ),
            (
                with(
                    "kubernetes.io",
                    json!({"namespace": "l", "pod": {"name": "p", "uid": "u"}}),
                ),
                "it is bound to pod \"l\"/\"p\" (uid \"u\") and dies with it",
            ),
            (
                with("kubernetes.io", json!({"node": {"name": "node2", "uid": "u"}})),
                "it is bound to node \"node2\" (uid \"u\"), and this host is called \"node1.example.org\"",
            ),
        ] {
            assert!(text.contains(says), "{says:?} is not in {text}");
        }
        let own = with("kubernetes.io", json!({"node": {"name": "node1", "uid": "u"}}));
        assert!(!own.contains("this host is called"), "{own}");
    }

    #[test]
    fn times_at_the_ends_of_all_numbers_are_told_like_others() {
        for (exp, says) in [(i64::MAX, "is good until"), (i64::MIN, "expired")] {
            let text = why(&json!({"exp": exp}));
            assert!(text.contains(says), "{exp}: {text}");
        }
        let text = why(&json!({"nbf": i64::MAX}));
        assert!(text.contains("is not valid before"), "{text}");
    }

    #[test]
    fn what_is_no_token_is_none() {
        for token in ["", "abc", "a.b", "a.b.c", "e30.e30.c2ln.x", "e30.bm90.c2ln"] {
            assert_eq!(Claims::read(token.as_bytes()), None, "{token:?}");
        }
        assert_eq!(Claims::read(b"e30.e30=.c2ln"), Some(Claims::default()));
    }
}
