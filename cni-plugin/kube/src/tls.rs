//! TLS for the one connection of a call: rustls under ureq.
//!
//! ureq's own connector panics on a client certificate that does not match its key, drops unusable roots silently, and
//! ignores the kubeconfig's `tls-server-name`; hence this one.

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

/// The connector for a kubeconfig, and the state that explains its failures.
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) handshake: Handshake,
}

/// The state of a connection that a message about its failure needs.
pub(crate) struct Handshake {
    pub(crate) stage: Arc<Stage>,
    pub(crate) presented: Arc<Presented>,
    pub(crate) bundle: Bundle,
}

impl Tls {
    /// Builds the connector from what was read.
    pub(crate) fn new(kubeconfig: &Kubeconfig, material: &Material, log: Log) -> Result<Self, Error> {
        let provider = Arc::new(provider());
        let presented = Arc::new(Presented::default());
        let (bundle, verifier) = match &material.bundle {
            Some((pem, source)) => {
                let bundle = read_bundle(pem, source, log);
                let verifier = verifier::for_bundle(bundle.roots(source)?, &bundle, &provider, &presented)?;
                (bundle, verifier)
            }
            None => {
                let reason = if kubeconfig.server.is_tls() {
                    "insecure-skip-tls-verify is set"
                } else {
                    "the server URL is http://"
                };
                log.with(&[("reason", &reason)])
                    .warn("server certificate not verified");
                (Bundle::default(), verifier::insecure(&provider))
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::new(Class::Kubeconfig, e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &material.certificate {
            Some((chain, key, source)) => with_certificate(builder, chain, key, source)?,
            None => builder.with_no_client_auth(),
        };
        // One connection per process: nothing to resume.
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

/// Reads a CA bundle and logs its unusable certificates.
fn read_bundle(pem: &[u8], source: &str, log: Log) -> Bundle {
    let bundle = Bundle::parse(pem);
    let (unreadable, expired) = (bundle.skipped, bundle.expired(clock::now()));
    if unreadable + expired > 0 {
        let state = format!("{unreadable} unreadable, {expired} expired");
        log.with(&[("source", &source), ("state", &state)])
            .warn("ca bundle has bad certificates");
    }
    bundle
}

/// Adds a client certificate and its key, PEM. `source` names them in an error.
fn with_certificate(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    chain: &[u8],
    key: &Secret,
    source: &str,
) -> Result<ClientConfig, Error> {
    let unusable = |cause: &str| {
        let message =
            format!("client certificate {source} cannot be used: {cause}; replace certificate and key");
        Error::new(Class::Credential, message)
    };
    let chain = Bundle::parse_chain(chain);
    let key = rustls_pemfile::private_key(&mut key.reveal())
        .ok()
        .flatten()
        .ok_or_else(|| unusable("it has no private key, or an encrypted one"))?;
    if chain.is_empty() {
        return Err(unusable("it has no certificate"));
    }
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|e| unusable(&e.to_string()))
}

/// Returns the name that the server's certificate must contain.
fn server_name(kubeconfig: &Kubeconfig) -> Result<ServerName<'static>, Error> {
    let name = kubeconfig
        .tls_server_name
        .as_deref()
        .unwrap_or(kubeconfig.server.host());
    ServerName::try_from(name.to_owned()).map_err(|_| {
        let message = format!("{name:?} is not a valid TLS server name; set tls-server-name");
        Error::new(Class::Kubeconfig, message)
    })
}

/// Every API server supports AES-GCM; ring's other ciphers would only add size. TLS 1.2 is for old load balancers.
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
