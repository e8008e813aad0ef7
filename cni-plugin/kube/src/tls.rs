//! TLS for the one connection of a call: rustls under ureq.
//!
//! ureq's own connector panics on a client certificate that does not fit its key, drops unusable roots without a word,
//! and takes the URL's host for the server's name whatever the kubeconfig says; hence this one.

mod connector;
mod verifier;

use std::sync::Arc;

use rustls::{
    ClientConfig, ConfigBuilder,
    client::{Resumption, WantsClientCert},
    crypto::{
        CryptoProvider,
        ring::{self, cipher_suite as suite},
    },
    pki_types::ServerName,
};

use self::{
    connector::{Stage, TlsConnector},
    verifier::Presented,
};
use crate::{
    clock,
    credentials::material::Material,
    error::{Class, Error},
    kubeconfig::Kubeconfig,
    log::Log,
    source::Secret,
    x509::bundle::Bundle,
};

/// The connector, and what its failures are explained by.
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) handshake: Handshake,
}

/// What a message about a failed connection needs.
pub(crate) struct Handshake {
    pub(crate) stage: Arc<Stage>,
    pub(crate) presented: Arc<Presented>,
    pub(crate) bundle: Bundle,
}

impl Tls {
    /// Makes it of what was read.
    pub(crate) fn new(kubeconfig: &Kubeconfig, material: &Material, log: Log) -> Result<Self, Error> {
        let provider = Arc::new(provider());
        let presented = Arc::new(Presented::default());
        let (bundle, verifier) = match &material.bundle {
            Some((pem, from)) => {
                let bundle = read_bundle(pem, from, log);
                let verifier = verifier::of_bundle(bundle.roots(from)?, &bundle, &provider, &presented)?;
                (bundle, verifier)
            }
            None => {
                let because = if kubeconfig.server.is_tls() {
                    "insecure-skip-tls-verify"
                } else {
                    "the server's URL is http://"
                };
                log.warn(format_args!("trust=anybody because={because:?}"));
                (Bundle::default(), verifier::of_anybody(&provider))
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::new(Class::Kubeconfig, e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &material.certificate {
            Some((chain, key, from)) => with_certificate(builder, chain, key, from)?,
            None => builder.with_no_client_auth(),
        };
        // One connection per process: there is nothing to resume.
        config.resumption = Resumption::disabled();
        let stage = Arc::new(Stage::default());
        let server = &kubeconfig.server;
        Ok(Self {
            connector: TlsConnector {
                config: Arc::new(config),
                name: server_name(kubeconfig)?,
                server: (server.host().to_owned(), server.port()),
                stage: Arc::clone(&stage),
            },
            handshake: Handshake {
                stage,
                presented,
                bundle,
            },
        })
    }
}

/// The authorities to believe; of those that cannot be, or not any more, the log is told.
fn read_bundle(pem: &[u8], from: &str, log: Log) -> Bundle {
    let bundle = Bundle::parse(pem);
    let (skipped, ended) = (bundle.skipped, bundle.ended(clock::now()));
    if skipped + ended > 0 {
        log.warn(format_args!("ca-bundle={from:?} skipped={skipped} ended={ended}"));
    }
    bundle
}

/// With a client certificate and its key, PEM. `from` is where they are from.
fn with_certificate(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    chain: &[u8],
    key: &Secret,
    from: &str,
) -> Result<ClientConfig, Error> {
    let refused = |cause: &str| {
        let message = format!("client certificate {from} cannot be used: {cause}; write the pair anew");
        Error::new(Class::Credential, message)
    };
    let chain = Bundle::parse_chain(chain);
    let key = rustls_pemfile::private_key(&mut key.reveal())
        .ok()
        .flatten()
        .ok_or_else(|| refused("there is no private key, or it is encrypted"))?;
    if chain.is_empty() {
        return Err(refused("there is no certificate"));
    }
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|e| refused(&e.to_string()))
}

/// The name that the server's certificate must carry.
fn server_name(kubeconfig: &Kubeconfig) -> Result<ServerName<'static>, Error> {
    let name = kubeconfig
        .tls_server_name
        .as_deref()
        .unwrap_or(kubeconfig.server.host());
    ServerName::try_from(name.to_owned()).map_err(|_| {
        let message = format!("{name:?} is no name that a certificate could carry");
        Error::new(Class::Kubeconfig, message)
    })
}

/// Every API server speaks AES-GCM; what else ring offers would be weight. TLS 1.2 for old front ends.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            suite::TLS13_AES_128_GCM_SHA256,
            suite::TLS13_AES_256_GCM_SHA384,
            suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        ],
        ..ring::default_provider()
    }
}
