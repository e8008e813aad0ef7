//! One request on one connection, and what became of it. No retries here; no meaning either, except of what went wrong
//! below HTTP.

use std::{io, sync::Arc, time::Duration};

use rustls::{AlertDescription, CertificateError, Error as TlsError};
use ureq::{
    Agent, Body, Timeout,
    config::Config,
    http::{HeaderName, HeaderValue, Method, Response, header},
    unversioned::transport::{ConnectProxyConnector, Connector, SocksConnector, TcpConnector},
};

use super::{
    credentials::Material,
    error::{Class, Error},
    kubeconfig::Kubeconfig,
    resolver::Names,
    tls::{Presented, Stage, Tls, TlsConnector},
    trust::Bundle,
};
use crate::{deadline::Deadline, log::Log};

/// A pod of etcd's largest size (1.5 MiB) in JSON, with room.
const LARGEST_BODY: u64 = 8 << 20;
/// Per direction and layer. The default of 128 KiB would double what the process takes.
const BUFFER: usize = 16 << 10;

/// What to ask.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: Method,
    /// Path and query, from `/api` on.
    pub(super) path: String,
    pub(super) body: Option<&'a [u8]>,
    /// What it is for, such as `get pod shop/web-0`.
    pub(super) purpose: String,
}

/// What came back, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) retry_after: Option<Duration>,
    pub(super) warnings: Vec<String>,
    pub(super) body: Vec<u8>,
}

/// A server, what we come to it with, and the connection once there is one.
pub(super) struct Session {
    agent: Agent,
    base: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    stage: Arc<Stage>,
    presented: Arc<Presented>,
    bundle: Bundle,
    pub(super) material: Material,
}

impl Session {
    pub(super) fn new(kubeconfig: &Kubeconfig, material: Material, log: Log) -> Result<Self, Error> {
        let tls = Tls::new(kubeconfig, &material, log)?;
        let stage = Arc::new(Stage::default());
        let server = &kubeconfig.server;
        let connector =
            ().chain(SocksConnector::default())
                .chain(ConnectProxyConnector::default())
                .chain(TcpConnector::default())
                .chain(TlsConnector {
                    config: tls.config,
                    name: tls.name,
                    server: (server.host().to_owned(), server.port()),
                    stage: Arc::clone(&stage),
                });
        Ok(Self {
            agent: Agent::with_parts(config(kubeconfig)?, connector, Names),
            base: server.to_string(),
            headers: headers(kubeconfig, &material)?,
            stage,
            presented: tls.presented,
            bundle: tls.bundle,
            material,
        })
    }

    /// Asks once. The head of the answer must begin within the deadline, and the body be whole by it.
    pub(super) fn ask(&self, request: &Request<'_>, deadline: Deadline) -> Result<Answer, Error> {
        let left = deadline.left();
        if left.is_zero() {
            return Err(Error::new(Class::Timeout, "no time was left to ask"));
        }
        self.stage.begin();
        let answer = self.send(request, left).and_then(|response| {
            self.stage.head_is_there();
            read(response)
        });
        answer.map_err(|e| self.explain(&e, left))
    }

    fn send(&self, request: &Request<'_>, left: Duration) -> Result<Response<Body>, ureq::Error> {
        let mut builder = ureq::http::Request::builder()
            .method(request.method.clone())
            .uri(format!("{}{}", self.base, request.path));
        for (name, value) in &self.headers {
            // Adds, and does not replace: groups to act in are several headers of one name.
            builder = builder.header(name, value);
        }
        // Half for the connection: one that hangs (a dead backend behind a live address) leaves time for another.
        let connect = left / 2;
        macro_rules! run {
            ($body:expr) => {{
                let request = builder.body($body)?;
                let config = self.agent.configure_request(request);
                let config = config
                    .timeout_global(Some(left))
                    .timeout_connect(Some(connect));
                self.agent.run(config.build())
            }};
        }
        match request.body {
            Some(body) => {
                builder = builder.header(header::CONTENT_TYPE, "application/json");
                run!(body)
            }
            None => run!(()),
        }
    }

    /// The URL of a request, for messages.
    pub(super) fn url(&self, request: &Request<'_>) -> String {
        let path = request.path.split('?').next().unwrap_or_default();
        format!("{} {}{path}", request.method, self.base)
    }

    fn explain(&self, error: &ureq::Error, left: Duration) -> Error {
        match error {
            ureq::Error::Timeout(which) => {
                let time = if *which == Timeout::Connect {
                    left / 2
                } else {
                    left
                };
                let waited = format!("{:.1}s", time.as_secs_f64());
                let message = format!(
                    "waited {waited} for {}; is the API server up, and does this node reach it?",
                    self.stage.waiting_for()
                );
                Error::new(Class::Timeout, message)
            }
            ureq::Error::Io(e) => match e.get_ref().and_then(|e| e.downcast_ref::<TlsError>()) {
                Some(tls) => self.explain_tls(tls),
                None => explain_io(e),
            },
            ureq::Error::HostNotFound => unreachable("the name of the server is not known; is it in DNS?"),
            ureq::Error::ConnectProxyFailed(_) => {
                unreachable("the proxy of proxy-url did not connect us; does it allow this address?")
            }
            ureq::Error::BodyExceedsLimit(limit) => {
                not_kubernetes(&format!("the answer is larger than {} MiB", limit >> 20))
            }
            other => not_kubernetes(&format!("the answer is not HTTP as it should be ({other})")),
        }
    }

    fn explain_tls(&self, error: &TlsError) -> Error {
        match error {
            TlsError::InvalidCertificate(cause) => {
                let shown = match self.presented.take() {
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
                let from = self
                    .material
                    .bundle
                    .as_ref()
                    .map(|(_, from)| from.as_str())
                    .unwrap_or_default();
                let holds = self.bundle.describe();
                Error::new(
                    Class::Trust,
                    format!("{cause}{shown}; CA bundle {from} holds {holds}; {cure}"),
                )
            }
            TlsError::AlertReceived(alert) if is_about_our_certificate(*alert) => {
                let message = match &self.material.certificate {
                    Some((.., from)) => format!("the server refused client certificate {from} ({alert:?})"),
                    None => format!(
                        "the server wants a client certificate and the kubeconfig has none ({alert:?})"
                    ),
                };
                Error::new(Class::Unauthorized, message)
            }
            TlsError::InvalidMessage(_) => {
                not_kubernetes("the server does not speak TLS; are host, port and https right?")
            }
            other => unreachable(&format!("the TLS connection failed: {other}")),
        }
    }
}

fn config(kubeconfig: &Kubeconfig) -> Result<Config, Error> {
    let proxy = match &kubeconfig.proxy {
        Some(url) => {
            let proxy = std::str::from_utf8(url.reveal())
                .ok()
                .and_then(|url| ureq::Proxy::new(url).ok());
            Some(proxy.ok_or_else(|| Error::new(Class::Kubeconfig, "proxy-url is no URL of a proxy"))?)
        }
        None => None,
    };
    Ok(Config::builder()
        // Explicitly none: the default is to look into the environment.
        .proxy(proxy)
        // An API server does not redirect; who does is not one, and must not be followed with a token.
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("evergreen-cni/", env!("CARGO_PKG_VERSION")))
        .accept("application/json")
        .input_buffer_size(BUFFER)
        .output_buffer_size(BUFFER)
        .max_idle_connections(1)
        .build())
}

fn headers(kubeconfig: &Kubeconfig, material: &Material) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
    let mut headers = Vec::new();
    if let Some((token, from)) = &material.token {
        let bearer = [b"Bearer ", token.reveal()].concat();
        let mut value = HeaderValue::from_bytes(&bearer).map_err(|_| {
            Error::new(
                Class::Credential,
                format!("token {from} cannot be sent as a header"),
            )
        })?;
        value.set_sensitive(true);
        headers.push((header::AUTHORIZATION, value));
    }
    for (name, value) in &kubeconfig.impersonate {
        let header = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .zip(HeaderValue::from_bytes(value.as_bytes()).ok());
        headers
            .push(header.ok_or_else(|| {
                Error::new(Class::Kubeconfig, format!("{name} cannot be sent as a header"))
            })?);
    }
    Ok(headers)
}

fn read(mut response: Response<Body>) -> Result<Answer, ureq::Error> {
    let text = |name: HeaderName| {
        response
            .headers()
            .get(name)
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned)
    };
    let content_type = text(header::CONTENT_TYPE).unwrap_or_default();
    // Seconds, as every API server writes it; a date is left to our own pauses.
    let retry_after = text(header::RETRY_AFTER)
        .and_then(|v| v.trim().parse().ok())
        .map(Duration::from_secs);
    let warnings = response.headers().get_all(header::WARNING).iter();
    let warnings = warnings
        .filter_map(|v| v.to_str().ok())
        .map(str::to_owned)
        .collect();
    Ok(Answer {
        status: response.status().as_u16(),
        content_type,
        retry_after,
        warnings,
        body: response
            .body_mut()
            .with_config()
            .limit(LARGEST_BODY)
            .read_to_vec()?,
    })
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
