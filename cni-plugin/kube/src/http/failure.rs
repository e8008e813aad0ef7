//! Explains failures below HTTP: no connection, no TLS, an incomplete response.

use std::{io, time::Duration};

use rustls::{AlertDescription, CertificateError, Error as TlsError};
use ureq::Timeout;

use crate::{
    credentials::material::Material,
    error::{Class, Error},
    quote,
    tls::Handshake,
};

/// Returns the time a connection may take. Half of it: one that hangs (a dead backend behind a live address) leaves time
/// for another.
pub(super) fn connect_timeout(left: Duration) -> Duration {
    left / 2
}

/// Returns the error of a request that had this much time.
pub(super) fn explain(
    error: &ureq::Error,
    handshake: &Handshake,
    material: &Material,
    left: Duration,
) -> Error {
    match error {
        ureq::Error::Timeout(which) => {
            let time = if *which == Timeout::Connect {
                connect_timeout(left)
            } else {
                left
            };
            let message = format!(
                "timed out after {:.1} s waiting for {}; is the API server up and reachable from this node?",
                time.as_secs_f64(),
                handshake.stage.waiting_for()
            );
            Error::new(Class::Timeout, message)
        }
        ureq::Error::Io(e) => match e.get_ref().and_then(|e| e.downcast_ref::<TlsError>()) {
            Some(tls) => explain_tls(tls, handshake, material),
            None => explain_io(e),
        },
        ureq::Error::HostNotFound => unreachable("the server's host name cannot be resolved; is it in DNS?"),
        ureq::Error::ConnectProxyFailed(_) => {
            unreachable("the proxy of proxy-url refused to connect; does it allow the API server's address?")
        }
        ureq::Error::BodyExceedsLimit(limit) => {
            not_kubernetes(&format!("the response is larger than {} MiB", limit >> 20))
        }
        other => {
            let cause = quote::one_line(&other.to_string());
            not_kubernetes(&format!("the response is not valid HTTP ({cause})"))
        }
    }
}

fn explain_tls(error: &TlsError, handshake: &Handshake, material: &Material) -> Error {
    match error {
        TlsError::InvalidCertificate(cause) => not_trusted(cause, handshake, material),
        TlsError::AlertReceived(alert) if is_about_our_certificate(*alert) => {
            let message = match &material.certificate {
                Some((.., source)) => {
                    format!("the API server rejected client certificate {source} ({alert:?})")
                }
                None => {
                    format!(
                        "the API server requires a client certificate and the kubeconfig has none ({alert:?})"
                    )
                }
            };
            Error::new(Class::Unauthorized, message)
        }
        TlsError::InvalidMessage(_) => {
            not_kubernetes("the server does not speak TLS; check scheme, host and port of the server URL")
        }
        other => unreachable(&format!("the TLS connection failed: {other}")),
    }
}

/// Says what the server presented, what the bundle contains, and what to do about the difference.
fn not_trusted(cause: &CertificateError, handshake: &Handshake, material: &Material) -> Error {
    let presented = match handshake.presented.take() {
        Some(c) => format!("; the server presented {c} issued by {:?}", c.issuer),
        None => String::new(),
    };
    let (cause, cure) = match cause {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => (
            format!("the server's certificate is expired or not yet valid ({cause})"),
            "renew it, or correct this node's clock",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            format!("the server's certificate is for another name ({cause})"),
            "set tls-server-name in the kubeconfig to a name in the certificate",
        ),
        _ => (
            format!("the server's certificate is not signed by a CA of the bundle ({cause})"),
            "the cluster's CA may have changed: let the installer update ca.crt",
        ),
    };
    let source = material
        .bundle
        .as_ref()
        .map(|(_, source)| source.as_str())
        .unwrap_or_default();
    let contains = handshake.bundle.describe();
    Error::new(
        Class::Trust,
        format!("{cause}{presented}; CA bundle {source} contains {contains}; {cure}"),
    )
}

fn explain_io(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            unreachable("connection refused; is the API server up, and are its address and port correct?")
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            unreachable(&format!(
                "the connection closed before the response was complete ({error})"
            ))
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => unreachable(&format!(
            "{error}; does this node have a route to the API server?"
        )),
        _ => unreachable(&error.to_string()),
    }
}

fn is_about_our_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateRequired
    )
}

fn unreachable(message: &str) -> Error {
    Error::new(Class::Unreachable, message)
}

fn not_kubernetes(message: &str) -> Error {
    Error::new(Class::NotKubernetes, message)
}
