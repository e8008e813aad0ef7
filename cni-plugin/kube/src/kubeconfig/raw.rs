//! A kubeconfig as it is written: every field that means something to us, all of them optional, null or absent alike.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;
use serde_json::Value;

/// `kind: Config`
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Config {
    pub(super) kind: Option<String>,
    pub(super) clusters: Option<Vec<Named<Cluster>>>,
    pub(super) users: Option<Vec<Named<User>>>,
    pub(super) contexts: Option<Vec<Named<Context>>>,
    pub(super) current_context: Option<String>,
}

/// An entry of one of the three lists. The value's key differs per list.
#[derive(Deserialize)]
pub(super) struct Named<T> {
    pub(super) name: Option<String>,
    #[serde(alias = "cluster", alias = "user", alias = "context")]
    pub(super) value: Option<T>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Cluster {
    pub(super) server: Option<String>,
    pub(super) tls_server_name: Option<String>,
    pub(super) insecure_skip_tls_verify: Option<bool>,
    pub(super) certificate_authority: Option<String>,
    pub(super) certificate_authority_data: Option<String>,
    pub(super) proxy_url: Option<String>,
    pub(super) extensions: Option<Vec<Extension>>,
}

#[derive(Deserialize, Clone)]
pub(super) struct Extension {
    pub(super) name: Option<String>,
    pub(super) extension: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct User {
    pub(super) token: Option<String>,
    // The one key of a kubeconfig that is not in kebab case.
    #[serde(rename = "tokenFile")]
    pub(super) token_file: Option<String>,
    pub(super) client_certificate: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key: Option<String>,
    pub(super) client_key_data: Option<String>,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    #[serde(rename = "as")]
    pub(super) as_user: Option<String>,
    pub(super) as_uid: Option<String>,
    pub(super) as_groups: Option<Vec<String>>,
    pub(super) as_user_extra: Option<BTreeMap<String, Vec<String>>>,
    pub(super) auth_provider: Option<serde::de::IgnoredAny>,
    pub(super) exec: Option<Exec>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Exec {
    pub(super) api_version: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<Variable>>,
    pub(super) interactive_mode: Option<String>,
    pub(super) provide_cluster_info: Option<bool>,
    pub(super) install_hint: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Variable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Context {
    pub(super) cluster: Option<String>,
    pub(super) user: Option<String>,
}

/// A field that is set: neither absent nor empty.
pub(super) fn text(field: Option<&str>) -> Option<String> {
    field.filter(|t| !t.trim().is_empty()).map(str::to_owned)
}

/// Why the text is no kubeconfig: where, and not what. The parsers' own messages quote the text, and the text holds
/// tokens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    what: &'static str,
    is_damage: bool,
    /// 1 for the first one, 0 where the place is not known.
    line: usize,
    column: usize,
}

/// Reads JSON, or else YAML by way of JSON, as client-go does: one reader then decides what a field may hold. The
/// installer writes JSON, because it is read in a tenth of the time.
pub(super) fn parse(text: &str) -> Result<Config, Unreadable> {
    let json = match serde_json::from_str(text) {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    if text.trim_start().starts_with('{') && json.is_data() {
        return Err(Unreadable {
            what: FIELD,
            is_damage: false,
            line: json.line(),
            column: json.column(),
        });
    }
    let options = serde_saphyr::options! { with_snippet: false };
    match serde_saphyr::from_str_with_options::<Value>(text, options) {
        // The place would be one in a text that nobody has seen. And where YAML was cut off behind the first word of a map
        // there is a string now.
        Ok(yaml) => serde_json::from_str(&yaml.to_string()).map_err(|_| Unreadable::damage(FIELD, (0, 0))),
        Err(_) if text.trim_start().starts_with('{') => {
            let what = if json.is_eof() {
                "ends too early"
            } else {
                "is no JSON"
            };
            Err(Unreadable::damage(what, (json.line(), json.column())))
        }
        Err(error) => {
            let number = |n: u64| usize::try_from(n).unwrap_or_default();
            let place = error
                .location()
                .map_or((0, 0), |p| (number(p.line()), number(p.column())));
            Err(Unreadable::damage("is no YAML", place))
        }
    }
}

/// Said of a text that can be read and is no kubeconfig.
const FIELD: &str = "has a field of another type than a kubeconfig's";

impl Unreadable {
    /// True when the text itself is broken, or may be.
    pub(super) fn is_damage(&self) -> bool {
        self.is_damage
    }

    fn damage(what: &'static str, (line, column): (usize, usize)) -> Self {
        Self {
            what,
            is_damage: true,
            line,
            column,
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if self.line > 0 {
            write!(f, " (line {}, column {})", self.line, self.column)?;
        }
        Ok(())
    }
}
