//! Who a request is from: tokens, certificates, and the tokens TokenRequest gives out.
//!
//! Minted tokens look like Kubernetes' own (three base64url parts, its claims) but carry no real signature: what is
//! accepted is what was handed out here and has not died since.

use std::{
    collections::HashMap,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{http::Request, objects::Objects};

/// Kubernetes' own tolerance for clocks that differ.
const LEEWAY: i64 = 60;
/// What signs the tokens of a cluster set up by default, and their audience.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// A user as SelfSubjectReview shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// `system:serviceaccount:<namespace>:<name>` for a service account.
    pub name: String,
    /// Groups, in order.
    pub groups: Vec<String>,
    /// `extra`: what the token is bound to, and its id.
    pub extra: Vec<(String, String)>,
}

/// The object a token lives and dies with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// `Pod`, `Node` or `Secret`.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The object's uid.
    pub uid: String,
}

/// Everybody the server knows.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    tokens: HashMap<String, (User, Option<Life>)>,
    certificates: HashMap<Vec<u8>, User>,
    key: u32,
    oldest_good_key: u32,
    minted: u32,
}

/// What can end a minted token.
#[derive(Debug)]
struct Life {
    expires: i64,
    key: u32,
    /// Paths and uids of the objects it dies with: what it is bound to, and its account where that is stored.
    tied_to: Vec<(String, String)>,
    for_this_server: bool,
}

impl User {
    /// A user of this name, in the groups every such user is in.
    pub fn named(name: &str) -> Self {
        let mut groups = vec![];
        if let Some(account) = name.strip_prefix("system:serviceaccount:") {
            let namespace = account.split(':').next().unwrap_or_default();
            groups = vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ];
        }
        groups.push("system:authenticated".to_owned());
        Self {
            name: name.to_owned(),
            groups,
            extra: Vec::new(),
        }
    }

    /// Nobody in particular: no credential was sent.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            extra: Vec::new(),
        }
    }
}

impl Identities {
    pub(crate) fn accept_token(&mut self, token: &str, user: User) {
        self.tokens.insert(token.to_owned(), (user, None));
    }

    pub(crate) fn refuse_token(&mut self, token: &str) {
        self.tokens.remove(token);
    }

    pub(crate) fn accept_certificate(&mut self, der: &[u8], user: User) {
        self.certificates.insert(der.to_vec(), user);
    }

    pub(crate) fn rotate_key(&mut self) {
        self.key += 1;
    }

    pub(crate) fn forget_old_keys(&mut self) {
        self.oldest_good_key = self.key;
    }

    /// Who this request is from; none is a 401. As in Kubernetes, a good certificate goes before the token, and a
    /// missing or empty token is nobody in particular, while a wrong one is refused.
    pub(crate) fn who(&self, request: &Request, certificate: &[u8], objects: &Objects) -> Option<User> {
        let bearer = request
            .header("authorization")
            .and_then(|v| v.strip_prefix("Bearer "))
            .unwrap_or_default();
        let user = match (self.certificates.get(certificate), bearer) {
            (Some(user), _) => user.clone(),
            (None, "") => User::anonymous(),
            (None, token) => {
                let (user, life) = self.tokens.get(token)?;
                if life.as_ref().is_some_and(|l| !self.lives(l, objects)) {
                    return None;
                }
                user.clone()
            }
        };
        Some(match request.header("impersonate-user") {
            Some(name) => User::named(name),
            None => user,
        })
    }

    fn lives(&self, life: &Life, objects: &Objects) -> bool {
        let bound = life.tied_to.iter().all(|(path, uid)| {
            objects
                .find(path, false)
                .is_some_and(|o| o["metadata"]["uid"] == uid.as_str())
        });
        life.for_this_server && life.key >= self.oldest_good_key && now() <= life.expires + LEEWAY && bound
    }

    /// A token and the time it ends, in seconds since 1970.
    pub(crate) fn mint(
        &mut self,
        namespace: &str,
        account: &str,
        bound: Option<&Bound>,
        audiences: &[String],
        seconds: i64,
    ) -> (String, i64) {
        self.minted += 1;
        let (jti, issued) = (uuid(self.minted), now().min(now() + seconds));
        let expires = now() + seconds;
        let audiences = if audiences.is_empty() {
            vec![ISSUER.to_owned()]
        } else {
            audiences.to_vec()
        };
        let mut kubernetes = json!({"namespace": namespace,
            "serviceaccount": {"name": account, "uid": "0c5b6e0d-3f8e-4b53-a9a6-5b6f2f5ac001"}});
        let mut user = User::named(&format!("system:serviceaccount:{namespace}:{account}"));
        user.extra.push((
            "authentication.kubernetes.io/credential-id".into(),
            format!("JTI={jti}"),
        ));
        if let Some(bound) = bound {
            let kind = bound.kind.to_lowercase();
            kubernetes[&kind] = json!({"name": bound.name, "uid": bound.uid});
            user.extra.push((
                format!("authentication.kubernetes.io/{kind}-name"),
                bound.name.clone(),
            ));
            user.extra.push((
                format!("authentication.kubernetes.io/{kind}-uid"),
                bound.uid.clone(),
            ));
        }
        let claims = json!({"aud": audiences, "exp": expires, "iat": issued, "iss": ISSUER, "jti": jti,
            "kubernetes.io": kubernetes, "nbf": issued, "sub": user.name});
        let token = format!(
            "{}.{}.{}",
            part(&json!({"alg": "RS256", "kid": format!("key-{}", self.key)})),
            part(&claims),
            URL_SAFE_NO_PAD.encode(format!(
                "signature {} of key {} under this token",
                self.minted, self.key
            ))
        );
        let life = Life {
            expires,
            key: self.key,
            tied_to: bound
                .map(|b| (b.path(namespace), b.uid.clone()))
                .into_iter()
                .collect(),
            for_this_server: audiences.iter().any(|a| a == ISSUER),
        };
        self.tokens.insert(token.clone(), (user, Some(life)));
        (token, expires)
    }
}

impl Identities {
    /// Lets a minted token die with this object too.
    pub(crate) fn tie(&mut self, token: &str, path: String, uid: String) {
        if let Some((_, Some(life))) = self.tokens.get_mut(token) {
            life.tied_to.push((path, uid));
        }
    }
}

impl Bound {
    fn path(&self, namespace: &str) -> String {
        match self.kind.as_str() {
            "Node" => format!("/api/v1/nodes/{}", self.name),
            kind => format!(
                "/api/v1/namespaces/{namespace}/{}s/{}",
                kind.to_lowercase(),
                self.name
            ),
        }
    }
}

fn part(json: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json.to_string())
}

pub(crate) fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after 1970");
    i64::try_from(since.as_secs()).expect("a clock before the year 292 billion")
}

/// Different for each number and each run.
pub(crate) fn uuid(number: u32) -> String {
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.subsec_nanos());
    format!(
        "{nanos:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        number >> 16,
        number & 0xfff,
        1,
        now() & 0xffff_ffff_ffff
    )
}

/// Seconds since 1970 as Kubernetes writes a time.
pub(crate) fn rfc3339(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days to a date of the Gregorian calendar, counted in years that begin on the first of March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_written_as_kubernetes_writes_them() {
        for (seconds, written) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_083_199, "2026-11-30T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(super::rfc3339(seconds), written, "{seconds}");
        }
    }
}
