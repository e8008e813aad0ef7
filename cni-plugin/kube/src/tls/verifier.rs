//! Is this the right server? The TLS library decides; here its verdict is completed by what Go accepts besides, and
//! what the server showed is kept for the message.

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

/// The certificate of a server that was not believed.
#[derive(Debug, Default)]
pub struct Presented(Mutex<Option<Certificate>>);

impl Presented {
    /// What was shown in the last handshake that failed.
    pub(crate) fn take(&self) -> Option<Certificate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Whom to believe, and the signatures that are understood: a server shows by one that its certificate's key is its own.
#[derive(Debug)]
struct Verifier {
    believes: Believes,
    signatures: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Believes {
    /// Who has a chain to the bundle, and who is in the bundle itself.
    Bundle(OfBundle),
    /// Any certificate.
    Insecure,
}

#[derive(Debug)]
struct OfBundle {
    inner: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
    presented: Arc<Presented>,
}

/// Believes the authorities of a bundle, and notes a certificate that is not believed.
pub(super) fn of_bundle(
    roots: RootCertStore,
    bundle: &Bundle,
    provider: &Arc<CryptoProvider>,
    presented: &Arc<Presented>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|e| Error::new(Class::Trust, format!("the CA bundle cannot be used: {e}")))?;
    let believes = Believes::Bundle(OfBundle {
        inner,
        pinned: bundle.certificates.clone(),
        presented: Arc::clone(presented),
    });
    let signatures = provider.signature_verification_algorithms;
    Ok(Arc::new(Verifier { believes, signatures }))
}

/// Believes anybody who holds the key of the certificate shown.
pub(super) fn of_anybody(provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Verifier {
        believes: Believes::Insecure,
        signatures: provider.signature_verification_algorithms,
    })
}

impl OfBundle {
    fn verify(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let verdict = self
            .inner
            .verify_server_cert(shown, intermediates, name, ocsp, now);
        let error = match verdict {
            Ok(verified) => return Ok(verified),
            Err(error) => error,
        };
        let no_chain = matches!(
            error,
            TlsError::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::Other(_))
        );
        if no_chain && self.is_pinned(shown, name, now) {
            return Ok(ServerCertVerified::assertion());
        }
        *self.presented.0.lock().unwrap_or_else(PoisonError::into_inner) = Certificate::read(shown);
        Err(error)
    }

    /// A server may show a certificate that stands in the bundle itself: made by hand, it is its own authority. Go
    /// takes it, webpki does not (an authority is no server to it). Name and dates must be right all the same.
    fn is_pinned(&self, shown: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> bool {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        self.pinned.iter().any(|p| p == shown)
            && ParsedCertificate::try_from(shown).is_ok_and(|c| verify_server_name(&c, name).is_ok())
            && Certificate::read(shown).is_some_and(|c| c.holds_at(now))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        match &self.believes {
            Believes::Bundle(bundle) => bundle.verify(shown, intermediates, name, ocsp, now),
            Believes::Insecure => Ok(ServerCertVerified::assertion()),
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
