//! A kubeconfig as it is written: every field that we use, all of them optional. Null and absent are the same.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::problem::{damaged, invalid};
use crate::error::Error;

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

/// An entry of one of the three lists, each with its own key for the value.
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
    // The one key that is not in kebab case.
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

/// Returns a field that is neither absent nor empty.
pub(super) fn text(field: Option<&str>) -> Option<String> {
    field.filter(|t| !t.trim().is_empty()).map(str::to_owned)
}

/// Reads JSON, or YAML converted to JSON, as client-go does, so that one reader decides about the fields. The installer
/// writes JSON: it is parsed in a tenth of the time.
///
/// An error has only the position: the parsers' own messages quote the text, which contains tokens.
pub(super) fn parse(text: &str) -> Result<Config, Error> {
    let json = match serde_json::from_str(text) {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    let is_json = text.trim_start().starts_with('{');
    let position = format!("(line {}, column {})", json.line(), json.column());
    if is_json && json.is_data() {
        return Err(invalid(format!("{WRONG_TYPE} {position}; write it again")));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    match serde_saphyr::from_str_with_options::<Value>(text, options) {
        // No position: it would be one in the converted text. It counts as damage, since YAML that is truncated after the
        // first word of a map becomes a string.
        Ok(yaml) => serde_json::from_str(&yaml.to_string()).map_err(|_| damaged(WRONG_TYPE)),
        Err(_) if is_json && json.is_eof() => Err(damaged(&format!("is truncated {position}"))),
        Err(_) if is_json => Err(damaged(&format!("is not valid JSON {position}"))),
        Err(error) => Err(damaged(&match error.location() {
            Some(at) => format!("is not valid YAML (line {}, column {})", at.line(), at.column()),
            None => "is not valid YAML".to_owned(),
        })),
    }
}

const WRONG_TYPE: &str = "has a field of the wrong type";
