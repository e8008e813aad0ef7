//! One request on one connection, and what came back. No retries and no meaning here.

use std::{sync::Arc, time::Duration};

use ureq::{
    Agent, Body, Proxy,
    config::Config,
    http::{HeaderName, HeaderValue, Method, Response, header},
    unversioned::transport::{ConnectProxyConnector, Connector, SocksConnector, TcpConnector},
};

use super::{
    credentials::Material,
    error::{Class, Error},
    failure,
    kubeconfig::Kubeconfig,
    resolver::Names,
    tls::{Presented, Stage, Tls, TlsConnector},
    trust::Bundle,
};
use crate::{deadline::Deadline, log::Log};

/// A pod of etcd's largest size (1.5 MiB) in JSON, with room.
pub(super) const LARGEST_OBJECT: u64 = 8 << 20;
/// The pods of a node (250 and more), each of a quarter of a mebibyte.
pub(super) const LARGEST_LIST: u64 = 64 << 20;
/// Bytes for what comes in: one TLS record. The default of 128 KiB would double what the process takes.
const INPUT: usize = 16 << 10;
/// Bytes for what goes out, beside our headers: a request line, a proxy's own. All of it is zeroed before it is used.
const OUTPUT: usize = 4 << 10;

/// What to ask.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: Method,
    /// Path and query, from `/api` on.
    pub(super) path: String,
    pub(super) body: Option<&'a [u8]>,
    /// What it is for, such as `get pod shop/web-0`.
    pub(super) purpose: String,
    /// How many bytes the answer's body may have.
    pub(super) largest: u64,
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
    /// How a message names the proxy on the way; empty without one.
    by_way_of: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) stage: Arc<Stage>,
    pub(super) presented: Arc<Presented>,
    pub(super) bundle: Bundle,
    pub(super) material: Material,
}

impl Session {
    pub(super) fn new(kubeconfig: &Kubeconfig, material: Material, log: Log) -> Result<Self, Error> {
        let headers = headers(kubeconfig, &material)?;
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
        let proxy = proxy(kubeconfig)?;
        // Never the URL itself: it may hold a password.
        let by_way_of = proxy.as_ref().map_or_else(String::new, |p| {
            format!(" by way of the proxy {}:{} of proxy-url", p.host(), p.port())
        });
        Ok(Self {
            agent: Agent::with_parts(config(proxy, &headers), connector, Names),
            base: server.to_string(),
            by_way_of,
            headers,
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
            read(response, request.largest)
        });
        answer.map_err(|e| failure::explain(&e, self, left))
    }

    fn send(&self, request: &Request<'_>, left: Duration) -> Result<Response<Body>, ureq::Error> {
        let mut builder = ureq::http::Request::builder()
            .method(request.method.clone())
            .uri(format!("{}{}", self.base, request.path));
        for (name, value) in &self.headers {
            // Adds, and does not replace: groups to act in are several headers of one name.
            builder = builder.header(name, value);
        }
        macro_rules! run {
            ($body:expr) => {{
                let request = builder.body($body)?;
                let config = self.agent.configure_request(request);
                let config = config
                    .timeout_global(Some(left))
                    .timeout_connect(Some(for_connecting(left)));
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
        format!("{} {}{path}{}", request.method, self.base, self.by_way_of)
    }
}

/// The part of the time that a connection may take. Half: one that hangs (a dead backend behind a live address) leaves
/// time for another.
pub(super) fn for_connecting(left: Duration) -> Duration {
    left / 2
}

fn proxy(kubeconfig: &Kubeconfig) -> Result<Option<Proxy>, Error> {
    let Some(url) = &kubeconfig.proxy else {
        return Ok(None);
    };
    let proxy = std::str::from_utf8(url.reveal())
        .ok()
        .and_then(|url| Proxy::new(url).ok());
    proxy
        .map(Some)
        .ok_or_else(|| Error::new(Class::Kubeconfig, "proxy-url is no URL of a proxy"))
}

fn config(proxy: Option<Proxy>, headers: &[(HeaderName, HeaderValue)]) -> Config {
    // The head of a request has to fit as a whole, and some tokens take tens of kilobytes.
    let head: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    Config::builder()
        // Explicitly none: the default is to look into the environment.
        .proxy(proxy)
        // An API server does not redirect; who does is not one, and must not be followed with a token.
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("evergreen-cni/", env!("CARGO_PKG_VERSION")))
        .accept("application/json")
        .input_buffer_size(INPUT)
        .output_buffer_size(OUTPUT + head)
        .max_idle_connections(1)
        .build()
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

fn read(mut response: Response<Body>, largest: u64) -> Result<Answer, ureq::Error> {
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
        body: response.body_mut().with_config().limit(largest).read_to_vec()?,
    })
}
