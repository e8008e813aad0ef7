//! The claims of a ServiceAccount token (RFC 7519, and Kubernetes' private claim `kubernetes.io`).
//!
//! For messages and reports only: whether the token is valid is for the API server to decide. It answers 401 whatever the
//! reason (expired, revoked, wrong key or audience), so only the claims can tell them apart. The token itself is never part
//! of a message.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer};

use crate::clock::{rfc3339, span};

/// API servers accept a token this long after its expiry and before its start (go-jose's leeway), in seconds.
const LEEWAY: i64 = 60;

/// The claims that can explain a rejection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Claims {
    /// The issuer.
    pub iss: String,
    /// `system:serviceaccount:<namespace>:<name>`
    pub sub: String,
    /// The audiences.
    #[serde(deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    /// When it expires, in seconds since 1970.
    pub exp: Option<i64>,
    /// When it becomes valid.
    pub nbf: Option<i64>,
    /// When it was issued.
    pub iat: Option<i64>,
    /// Kubernetes' private claim.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Kubernetes,
}

/// The claim `kubernetes.io`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Kubernetes {
    /// The ServiceAccount's namespace.
    pub namespace: String,
    /// The pod it is bound to.
    pub pod: Option<Reference>,
    /// The node it is bound to; beside a pod it is informational.
    pub node: Option<Reference>,
    /// The secret it is bound to.
    pub secret: Option<Reference>,
}

/// An object by name and UID.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reference {
    /// The object's name.
    pub name: String,
    /// The object's UID.
    pub uid: String,
}

impl Claims {
    /// Reads the claims of a JWT; `None` if it is not one.
    pub fn read(token: &[u8]) -> Option<Self> {
        let mut parts = token.split(|b| *b == b'.');
        let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        // The standard has no padding; some libraries write it.
        let unpadded = claims.split(|b| *b == b'=').next()?;
        let claims = URL_SAFE_NO_PAD.decode(unpadded).ok()?;
        serde_json::from_slice(&claims).ok()
    }

    /// Returns why the API server may reject the token, as the end of a sentence that begins with "the token".
    pub(super) fn explain_rejection(&self, now: i64, host: &str) -> String {
        let outside_validity = self.outside_validity(now);
        let validity = match (&outside_validity, self.exp) {
            (Some(reason), _) => format!(" {reason}"),
            (None, Some(exp)) => format!(" claims to be valid until {}", rfc3339(exp)),
            (None, None) => String::new(),
        };
        let mut parts = vec![format!("(subject {}){validity}", short(&self.sub))];
        let kubernetes = &self.kubernetes;
        if let Some(pod) = &kubernetes.pod {
            parts.push(format!(
                "it is bound to pod {}/{} (UID {}) and revoked when that pod is deleted: is it still this node's installer?",
                short(&kubernetes.namespace),
                short(&pod.name),
                short(&pod.uid)
            ));
        }
        if let Some(node) = &kubernetes.node {
            let other = match host.is_empty() || same_host(&node.name, host) {
                true => String::new(),
                false => format!(", but this host is named {}", short(host)),
            };
            let (name, uid) = (short(&node.name), short(&node.uid));
            parts.push(format!("it is bound to node {name} (UID {uid}){other}"));
        }
        if self.has_other_audience() {
            let audiences: Vec<String> = self.aud.iter().take(3).map(|a| short(a)).collect();
            parts.push(format!(
                "its audience is {}, not the API server",
                audiences.join(", ")
            ));
        }
        if outside_validity.is_none() {
            let other =
                "the API server may have new signing keys, or the ServiceAccount may have been deleted";
            parts.push(other.to_owned());
        }
        parts.push("the installer must write a new one: check its log on this node".to_owned());
        parts.join("; ")
    }

    /// Returns how the token is expired or not valid yet, if that is certain despite the server's leeway.
    fn outside_validity(&self, now: i64) -> Option<String> {
        if let Some(exp) = self.exp.filter(|exp| now > exp.saturating_add(LEEWAY)) {
            let ago = span(now.saturating_sub(exp));
            return Some(format!("expired {ago} ago ({})", rfc3339(exp)));
        }
        let begins = self.nbf.max(self.iat)?;
        (now + LEEWAY < begins).then(|| {
            let at = rfc3339(begins);
            format!(
                "is not valid before {at}, which is {} from now: check this node's clock",
                span(begins.saturating_sub(now))
            )
        })
    }

    /// The API server's own audience is its issuer by default, and nearly always a `kubernetes.default.svc`.
    fn has_other_audience(&self) -> bool {
        !self.aud.is_empty()
            && !self
                .aud
                .iter()
                .any(|a| *a == self.iss || a.contains("kubernetes.default") || a == "api")
    }
}

/// Quotes and shortens a claim, so that it cannot pass for our own words.
fn short(claim: &str) -> String {
    format!("{:?}", claim.chars().take(120).collect::<String>())
}

/// Compares host names: a node may have its host's short name or the full one.
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
            .explain_rejection(NOW, "node1.example.org");
        assert!(!why.contains(&claims), "{why}");
        why
    }

    #[test]
    fn claims_explain_the_rejection() {
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
                "claims to be valid until 2026-12-01T00:59:59Z; the API server may have new signing keys",
            ),
            (
                with("exp", json!(NOW - 7200)),
                "expired 2h ago (2026-11-30T21:59:59Z)",
            ),
            (with("exp", json!(NOW - 30)), "claims to be valid until"),
            (
                with("nbf", json!(NOW + 600)),
                "is not valid before 2026-12-01T00:09:59Z, which is 10m from now: check this node's clock",
            ),
            (with("nbf", json!(NOW + 30)), "claims to be valid until"),
            (
                with("aud", json!("vault")),
                "its audience is \"vault\", not the API server",
            ),
            (
                with(
                    "kubernetes.io",
                    json!({"namespace": "l", "pod": {"name": "p", "uid": "u"}}),
                ),
                "it is bound to pod \"l\"/\"p\" (UID \"u\") and revoked when that pod is deleted",
            ),
            (
                with("kubernetes.io", json!({"node": {"name": "node2", "uid": "u"}})),
                "it is bound to node \"node2\" (UID \"u\"), but this host is named \"node1.example.org\"",
            ),
        ] {
            assert!(text.contains(says), "{says:?} is not in {text}");
        }
        let own = with("kubernetes.io", json!({"node": {"name": "node1", "uid": "u"}}));
        assert!(!own.contains("this host is named"), "{own}");
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        for (exp, says) in [(i64::MAX, "claims to be valid until"), (i64::MIN, "expired")] {
            let text = why(&json!({"exp": exp}));
            assert!(text.contains(says), "{exp}: {text}");
        }
        let text = why(&json!({"nbf": i64::MAX}));
        assert!(text.contains("is not valid before"), "{text}");
    }

    #[test]
    fn malformed_tokens_have_no_claims() {
        for token in ["", "abc", "a.b", "a.b.c", "e30.e30.c2ln.x", "e30.bm90.c2ln"] {
            assert_eq!(Claims::read(token.as_bytes()), None, "{token:?}");
        }
        assert_eq!(Claims::read(b"e30.e30=.c2ln"), Some(Claims::default()));
    }
}
