//! Checks the fields of a cluster and a user.

use std::path::Path;

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    exec,
    model::{ClientCertificate, Identity, Token, Trust},
    problem::{damaged, invalid, missing},
    raw::{Cluster, User, text},
    server::Server,
};
use crate::{
    error::Error,
    source::{Secret, Source},
};

/// Returns how the server's certificate is verified.
pub(super) fn trust(cluster: &Cluster, server: &Server, folder: &Path) -> Result<Trust, Error> {
    let bundle = source(
        "certificate-authority",
        cluster.certificate_authority.as_deref(),
        cluster.certificate_authority_data.as_deref(),
        folder,
    )?;
    match (bundle, cluster.insecure_skip_tls_verify.unwrap_or_default()) {
        (Some(_), true) => Err(invalid(
            "insecure-skip-tls-verify and certificate-authority are both set; remove one of the two",
        )),
        (Some(bundle), false) => Ok(Trust::Bundle(bundle)),
        (None, true) => Ok(Trust::Insecure),
        (None, false) if server.is_tls() => Ok(Trust::System),
        (None, false) => Ok(Trust::Insecure),
    }
}

/// Returns the proxy's URL. Errors do not quote it: it may contain a password.
pub(super) fn proxy(cluster: &Cluster) -> Result<Option<Secret>, Error> {
    let Some(url) = text(cluster.proxy_url.as_deref()) else {
        return Ok(None);
    };
    let scheme = url
        .split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    let known = matches!(scheme.as_deref(), Some("http" | "https" | "socks5"));
    if !known || ureq::Proxy::new(&url).is_err() {
        return Err(invalid("proxy-url is not an http://, https:// or socks5:// URL"));
    }
    Ok(Some(Secret::new(url)))
}

/// Returns our credentials.
pub(super) fn identity(user: &User, cluster: &Cluster, folder: &Path) -> Result<Identity, Error> {
    if text(user.username.as_deref()).is_some() || text(user.password.as_deref()).is_some() {
        return Err(invalid(
            "username and password are not supported by API servers since Kubernetes 1.19; use tokenFile",
        ));
    }
    if user.auth_provider.is_some() {
        return Err(invalid(
            "auth-provider is not supported (client-go removed it in 1.26); use exec or tokenFile",
        ));
    }
    let inline = text(user.token.as_deref()).map(Secret::new);
    let token = match text(user.token_file.as_deref()) {
        Some(file) => Some(Token::File(Source::File(folder.join(file)), inline)),
        None => inline.map(Token::Inline),
    };
    let chain = source(
        "client-certificate",
        user.client_certificate.as_deref(),
        user.client_certificate_data.as_deref(),
        folder,
    )?;
    let key = source(
        "client-key",
        user.client_key.as_deref(),
        user.client_key_data.as_deref(),
        folder,
    )?;
    let certificate = match (chain, key) {
        (Some(chain), Some(key)) => Some(ClientCertificate { chain, key }),
        (None, None) => None,
        (Some(_), None) => return Err(missing("has client-certificate but no client-key; add the key")),
        (None, Some(_)) => {
            return Err(missing(
                "has client-key but no client-certificate; add the certificate",
            ));
        }
    };
    let exec = match &user.exec {
        Some(raw) if token.is_none() && certificate.is_none() => Some(exec::check(raw, cluster, folder)?),
        _ => None,
    };
    Ok(Identity {
        token,
        certificate,
        exec,
    })
}

/// Returns the `Impersonate-*` headers as client-go sends them (rest `ImpersonationConfig`).
pub(super) fn impersonation(user: &User) -> Result<Vec<(String, String)>, Error> {
    let uid = text(user.as_uid.as_deref());
    let groups = user.as_groups.as_deref().unwrap_or_default();
    let extra = user.as_user_extra.iter().flatten();
    let Some(name) = text(user.as_user.as_deref()) else {
        if uid.is_some() || !groups.is_empty() || extra.count() > 0 {
            return Err(invalid(
                "as-uid, as-groups and as-user-extra require as, the user to impersonate",
            ));
        }
        return Ok(Vec::new());
    };
    let mut headers = vec![("Impersonate-User".to_owned(), name)];
    headers.extend(uid.map(|u| ("Impersonate-Uid".to_owned(), u)));
    headers.extend(groups.iter().map(|g| ("Impersonate-Group".to_owned(), g.clone())));
    for (key, values) in extra {
        let header = format!("Impersonate-Extra-{}", escape(key));
        headers.extend(values.iter().map(|v| (header.clone(), v.clone())));
    }
    match headers
        .iter()
        .find(|(_, v)| !v.chars().all(|c| c == '\t' || !c.is_control()))
    {
        Some((name, _)) => Err(invalid(format!(
            "the value of header {name} contains a control character"
        ))),
        None => Ok(headers),
    }
}

/// Percent-encodes a key as part of a header name.
fn escape(key: &str) -> String {
    key.bytes()
        .map(|b| match b {
            b if b.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&b) => char::from(b).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}

/// Returns the value of a pair of fields, a path and its base64 `-data`, of which at most one may be set.
fn source(
    field: &str,
    file: Option<&str>,
    data: Option<&str>,
    folder: &Path,
) -> Result<Option<Source>, Error> {
    match (text(file), text(data)) {
        (Some(_), Some(_)) => Err(invalid(format!(
            "{field} and {field}-data are both set; remove one of the two"
        ))),
        (Some(file), None) => Ok(Some(Source::File(folder.join(file)))),
        (None, Some(data)) => {
            let packed: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            match STANDARD.decode(packed) {
                Ok(bytes) => Ok(Some(Source::Data(Secret::new(bytes)))),
                Err(_) => Err(damaged(&format!("{field}-data is not base64"))),
            }
        }
        (None, None) => Ok(None),
    }
}
