//! The credentials of one call as they are on disk now: CA bundle, token, client certificate.

use super::{claims::Claims, exec, token::parse};
use crate::{
    deadline::Deadline,
    error::Error,
    kubeconfig::{ClientCertificate, Kubeconfig, Token, Trust},
    log::Log,
    source::Secret,
    x509::{bundle::Bundle, certificate::Certificate},
};

/// Every byte that a TLS connection and its request depend on. A retry with an equal one would fail alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Material {
    /// The CA bundle and its source; none when the server's certificate is not verified.
    pub(crate) bundle: Option<(Vec<u8>, String)>,
    /// The bearer token and its source.
    pub(crate) token: Option<(Secret, String)>,
    /// Client certificate and key, PEM, and their source.
    pub(crate) certificate: Option<(Vec<u8>, Secret, String)>,
}

impl Material {
    /// Reads everything that the kubeconfig names.
    pub(crate) fn read(kubeconfig: &Kubeconfig, deadline: Deadline, log: Log) -> Result<Self, Error> {
        let bundle = match &kubeconfig.trust {
            Trust::Bundle(source) => Some((source.read("CA bundle")?, source.to_string())),
            Trust::System => Bundle::system().map(|(pem, path)| Some((pem, path.to_owned())))?,
            Trust::Insecure => None,
        };
        let identity = &kubeconfig.identity;
        let mut material = Self {
            bundle,
            token: identity.token.as_ref().map(|t| token(t, log)).transpose()?,
            certificate: identity.certificate.as_ref().map(certificate).transpose()?,
        };
        if let Some(plugin) = &identity.exec {
            let made = exec::run(plugin, kubeconfig, deadline, log)?;
            material.token = made.token.map(|token| (token, made.source.clone()));
            material.certificate = made.certificate.map(|(chain, key)| (chain, key, made.source));
        }
        Ok(material)
    }

    /// Returns the likely reason for a 401, from what the credential says about itself.
    pub(crate) fn explain_rejection(&self, now: i64, host: &str) -> String {
        if let Some((token, source)) = &self.token {
            return match Claims::read(token.reveal()) {
                Some(claims) => format!("the token from {source} {}", claims.explain_rejection(now, host)),
                None => format!(
                    "the token from {source} is not a valid JWT, so its expiry is unknown; let the installer write a \
                     new one"
                ),
            };
        }
        match &self.certificate {
            Some((chain, _, source)) => {
                let read = Bundle::parse_chain(chain)
                    .first()
                    .and_then(|der| Certificate::read(der));
                let shown = read.map_or_else(
                    || "unreadable".to_owned(),
                    |c| format!("{c} issued by {:?}", c.issuer),
                );
                format!("client certificate {source} is {shown}; does the API server still trust its issuer?")
            }
            None => "no credential was sent".to_owned(),
        }
    }

    /// Returns true when a text from elsewhere contains our token.
    pub(crate) fn leaks_into(&self, text: &str) -> bool {
        let token = self
            .token
            .as_ref()
            .and_then(|(token, _)| std::str::from_utf8(token.reveal()).ok());
        token.is_some_and(|t| text.contains(t))
    }
}

fn token(token: &Token, log: Log) -> Result<(Secret, String), Error> {
    let inline = |secret: &Secret| {
        let source = "the kubeconfig".to_owned();
        Ok((parse(secret.reveal(), &source)?, source))
    };
    match token {
        Token::Inline(secret) => inline(secret),
        Token::File(file, fallback) => {
            let source = file.to_string();
            match (
                file.read("token file").and_then(|bytes| parse(&bytes, &source)),
                fallback,
            ) {
                (Ok(secret), _) => Ok((secret, source)),
                (Err(error), Some(secret)) => {
                    log.with(&[("error", &error)])
                        .warn("token file unusable, using the token in the kubeconfig");
                    inline(secret)
                }
                (Err(error), None) => Err(error),
            }
        }
    }
}

fn certificate(pair: &ClientCertificate) -> Result<(Vec<u8>, Secret, String), Error> {
    let chain = pair.chain.read("client certificate")?;
    // The kubelet keeps both in one file and replaces it as one: with two reads the halves could be from two pairs.
    let key = match &pair.key {
        key if *key == pair.chain => chain.clone(),
        key => key.read("client key")?,
    };
    Ok((chain, Secret::new(key), pair.chain.to_string()))
}
