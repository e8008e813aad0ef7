//! Verifies the server's certificate: webpki's decision, plus pinned certificates as Go accepts them. A rejected
//! certificate is kept for the message.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::{
    CertificateError, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use crate::{
    error::{Class, Error},
    x509::{bundle::Bundle, certificate::Certificate},
};

/// The certificate of a server that is not trusted.
#[derive(Debug, Default)]
pub struct Presented(Mutex<Option<Certificate>>);

impl Presented {
    /// Returns the certificate of the last failed handshake.
    pub(crate) fn take(&self) -> Option<Certificate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A verifier for rustls.
#[derive(Debug)]
struct Verifier {
    /// None: any certificate is accepted.
    bundle: Option<BundleVerifier>,
    /// A server proves by a signature that it has the key of its certificate.
    signatures: WebPkiSupportedAlgorithms,
}

/// Accepts certificates with a chain to the bundle, and certificates in the bundle itself.
#[derive(Debug)]
struct BundleVerifier {
    inner: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
    presented: Arc<Presented>,
}

/// Trusts the CAs of a bundle, and keeps a rejected certificate in `presented`.
pub(super) fn for_bundle(
    roots: RootCertStore,
    bundle: &Bundle,
    provider: &Arc<CryptoProvider>,
    presented: &Arc<Presented>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|e| Error::new(Class::Trust, format!("the CA bundle cannot be used: {e}")))?;
    Ok(Arc::new(Verifier {
        bundle: Some(BundleVerifier {
            inner,
            pinned: bundle.certificates.clone(),
            presented: Arc::clone(presented),
        }),
        signatures: provider.signature_verification_algorithms,
    }))
}

/// Accepts any server that has the key of its certificate.
pub(super) fn insecure(provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Verifier {
        bundle: None,
        signatures: provider.signature_verification_algorithms,
    })
}

impl BundleVerifier {
    fn verify(
        &self,
        presented: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let verdict = self
            .inner
            .verify_server_cert(presented, intermediates, name, ocsp, now);
        let error = match verdict {
            Ok(verified) => return Ok(verified),
            Err(error) => error,
        };
        let no_chain = matches!(
            error,
            TlsError::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::Other(_))
        );
        if no_chain && self.is_pinned(presented, name, now) {
            return Ok(ServerCertVerified::assertion());
        }
        *self.presented.0.lock().unwrap_or_else(PoisonError::into_inner) = Certificate::read(presented);
        Err(error)
    }

    /// Returns true for a certificate that is itself in the bundle, such as a self-signed one. Go accepts it, webpki does
    /// not (a CA cannot be a server). Name and dates must still match.
    fn is_pinned(&self, presented: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> bool {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        self.pinned.iter().any(|p| p == presented)
            && ParsedCertificate::try_from(presented).is_ok_and(|c| verify_server_name(&c, name).is_ok())
            && Certificate::read(presented).is_some_and(|c| c.is_valid_at(now))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        match &self.bundle {
            Some(bundle) => bundle.verify(presented, intermediates, name, ocsp, now),
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signature, &self.signatures)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.signatures)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.supported_schemes()
    }
}
