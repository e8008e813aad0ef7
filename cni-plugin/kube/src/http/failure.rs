//! What went wrong below HTTP, in words: no connection, no TLS, no whole answer.

use std::{io, time::Duration};

use rustls::{AlertDescription, CertificateError, Error as TlsError};
use ureq::Timeout;

use crate::{
    credentials::material::Material,
    error::{Class, Error},
    quote,
    tls::Handshake,
};

/// The part of the time that a connection may take. Half: one that hangs (a dead backend behind a live address) leaves
/// time for another.
pub(super) fn time_to_connect(left: Duration) -> Duration {
    left / 2
}

/// The failure of a request that had this much time.
pub(super) fn explain(
    error: &ureq::Error,
    handshake: &Handshake,
    material: &Material,
    left: Duration,
) -> Error {
    match error {
        ureq::Error::Timeout(which) => {
            let time = if *which == Timeout::Connect {
                time_to_connect(left)
            } else {
                left
            };
            let message = format!(
                "waited {:.1}s for {}; is the API server up, and does this node reach it?",
                time.as_secs_f64(),
                handshake.stage.waiting_for()
            );
            Error::new(Class::Timeout, message)
        }
        ureq::Error::Io(e) => match e.get_ref().and_then(|e| e.downcast_ref::<TlsError>()) {
            Some(tls) => explain_tls(tls, handshake, material),
            None => explain_io(e),
        },
        ureq::Error::HostNotFound => unreachable("the name of the server is not known; is it in DNS?"),
        ureq::Error::ConnectProxyFailed(_) => {
            unreachable("the proxy of proxy-url did not connect us; does it allow this address?")
        }
        ureq::Error::BodyExceedsLimit(limit) => {
            not_kubernetes(&format!("the answer is larger than {} MiB", limit >> 20))
        }
        other => {
            let cause = quote::one_line(&other.to_string());
            not_kubernetes(&format!("the answer is not HTTP as it should be ({cause})"))
        }
    }
}

fn explain_tls(error: &TlsError, handshake: &Handshake, material: &Material) -> Error {
    match error {
        TlsError::InvalidCertificate(cause) => not_believed(cause, handshake, material),
        TlsError::AlertReceived(alert) if is_about_our_certificate(*alert) => {
            let message = match &material.certificate {
                Some((.., from)) => format!("the server refused client certificate {from} ({alert:?})"),
                None => {
                    format!("the server wants a client certificate and the kubeconfig has none ({alert:?})")
                }
            };
            Error::new(Class::Unauthorized, message)
        }
        TlsError::InvalidMessage(_) => {
            not_kubernetes("the server does not speak TLS; are host, port and https right?")
        }
        other => unreachable(&format!("the TLS connection failed: {other}")),
    }
}

/// Says what the server showed, what the bundle holds, and what to do about the difference.
fn not_believed(cause: &CertificateError, handshake: &Handshake, material: &Material) -> Error {
    let shown = match handshake.presented.take() {
        Some(c) => format!("; the server showed {c} issued by {:?}", c.issuer),
        None => String::new(),
    };
    let (cause, cure) = match cause {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => (
            format!("the server's certificate does not hold now ({cause})"),
            "renew it, or set this node's clock",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            format!("the server's certificate is for another name ({cause})"),
            "set tls-server-name in the kubeconfig to a name it carries",
        ),
        _ => (
            format!("no authority of the CA bundle signed the server's certificate ({cause})"),
            "the cluster's CA may have changed: let the installer write its ca.crt anew",
        ),
    };
    let from = material
        .bundle
        .as_ref()
        .map(|(_, from)| from.as_str())
        .unwrap_or_default();
    let holds = handshake.bundle.describe();
    Error::new(
        Class::Trust,
        format!("{cause}{shown}; CA bundle {from} holds {holds}; {cure}"),
    )
}

fn explain_io(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            unreachable("connection refused; is the API server up, and are address and port right?")
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            unreachable(&format!(
                "the connection broke before the whole answer had come ({error})"
            ))
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            unreachable(&format!("{error}; has this node a route to the API server?"))
        }
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
