//! What a call comes with, as it lies on disk at this moment: CA bundle, token, client certificate.

use super::{claims::Claims, exec, token::parse};
use crate::{
    deadline::Deadline,
    error::Error,
    kubeconfig::{ClientCertificate, Kubeconfig, Token, Trust},
    log::Log,
    source::Secret,
    x509::{bundle::Bundle, certificate::Certificate},
};

/// Every byte that one TLS connection and one request are made of. Two that are equal would fail alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Material {
    /// The bundle and where it is from; none when anybody is trusted.
    pub(crate) bundle: Option<(Vec<u8>, String)>,
    /// The bearer token and where it is from.
    pub(crate) token: Option<(Secret, String)>,
    /// Client certificate and key, PEM, and where they are from.
    pub(crate) certificate: Option<(Vec<u8>, Secret, String)>,
}

impl Material {
    /// Reads all that the kubeconfig names.
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
            material.token = made.token.map(|token| (token, made.from.clone()));
            material.certificate = made.certificate.map(|(chain, key)| (chain, key, made.from));
        }
        Ok(material)
    }

    /// Why the server may not take it, from what it says of itself; for a 401.
    pub(crate) fn why_refused(&self, now: i64, host: &str) -> String {
        if let Some((token, from)) = &self.token {
            return match Claims::read(token.reveal()) {
                Some(claims) => format!("the token of {from} {}", claims.why_refused(now, host)),
                None => format!(
                    "the token of {from} is not one that says anything of itself (no JWT, or a damaged one); let the \
                     installer write it anew"
                ),
            };
        }
        match &self.certificate {
            Some((chain, _, from)) => {
                let read = Bundle::parse_chain(chain)
                    .first()
                    .and_then(|der| Certificate::read(der));
                let shown = read.map_or_else(
                    || "unreadable".to_owned(),
                    |c| format!("{c} issued by {:?}", c.issuer),
                );
                format!(
                    "client certificate {from} is {shown}; is its authority still one of the API server's?"
                )
            }
            None => "no credential was sent".to_owned(),
        }
    }

    /// True when this text, which somebody else wrote, repeats a secret of ours.
    pub(crate) fn leaks_into(&self, text: &str) -> bool {
        let token = self
            .token
            .as_ref()
            .and_then(|(token, _)| std::str::from_utf8(token.reveal()).ok());
        token.is_some_and(|t| text.contains(t))
    }
}

fn token(token: &Token, log: Log) -> Result<(Secret, String), Error> {
    match token {
        Token::Inline(secret) => Ok((
            parse(secret.reveal(), "the kubeconfig")?,
            "the kubeconfig".to_owned(),
        )),
        Token::File(source, fallback) => {
            let from = source.to_string();
            let read = source.read("token file").and_then(|bytes| parse(&bytes, &from));
            match (read, fallback) {
                (Ok(secret), _) => Ok((secret, from)),
                (Err(error), Some(inline)) => {
                    log.warn(format_args!(
                        "used=token-of-kubeconfig because={error:?}",
                        error = error.to_string()
                    ));
                    Ok((
                        parse(inline.reveal(), "the kubeconfig")?,
                        "the kubeconfig".to_owned(),
                    ))
                }
                (Err(error), None) => Err(error),
            }
        }
    }
}

fn certificate(pair: &ClientCertificate) -> Result<(Vec<u8>, Secret, String), Error> {
    let chain = pair.chain.read("client certificate")?;
    // The kubelet keeps both in one file and replaces it as one: read once, or the halves may be of two pairs.
    let key = match &pair.key {
        key if *key == pair.chain => chain.clone(),
        key => key.read("client key")?,
    };
    Ok((chain, Secret::new(key), pair.chain.to_string()))
}
