//! One request on one connection, and what came back. No retries and no meaning here.

use std::time::Duration;

use ureq::{
    Agent, Body, Proxy,
    config::Config,
    http::{HeaderName, HeaderValue, Response, header},
    unversioned::transport::{ConnectProxyConnector, Connector as _, SocksConnector, TcpConnector},
};

use super::{
    failure,
    request::{Answer, Request},
    resolver::Names,
};
use crate::{
    credentials::material::Material,
    deadline::Deadline,
    error::{Class, Error},
    kubeconfig::Kubeconfig,
    log::Log,
    tls::{Handshake, Tls},
};

/// Bytes for what comes in: one TLS record. The default of 128 KiB would double what the process takes.
const INPUT: usize = 16 << 10;
/// Bytes for what goes out, beside our headers: a request line, a proxy's own. All of it is zeroed before it is used.
const OUTPUT: usize = 4 << 10;

/// A server, what we come to it with, and the connection once there is one.
pub(crate) struct Session {
    agent: Agent,
    base: String,
    /// How a message names the proxy on the way; empty without one.
    by_way_of: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    handshake: Handshake,
    pub(crate) material: Material,
}

impl Session {
    pub(crate) fn new(kubeconfig: &Kubeconfig, material: Material, log: Log) -> Result<Self, Error> {
        let headers = headers(kubeconfig, &material)?;
        let tls = Tls::new(kubeconfig, &material, log)?;
        let connector =
            ().chain(SocksConnector::default())
                .chain(ConnectProxyConnector::default())
                .chain(TcpConnector::default())
                .chain(tls.connector);
        let proxy = proxy(kubeconfig)?;
        // Never the URL itself: it may hold a password.
        let by_way_of = proxy.as_ref().map_or_else(String::new, |p| {
            format!(" by way of the proxy {}:{} of proxy-url", p.host(), p.port())
        });
        Ok(Self {
            agent: Agent::with_parts(config(proxy, &headers), connector, Names),
            base: kubeconfig.server.to_string(),
            by_way_of,
            headers,
            handshake: tls.handshake,
            material,
        })
    }

    /// Asks once. The head of the answer must begin within the deadline, and the body be whole by it.
    pub(crate) fn ask(&self, request: &Request<'_>, deadline: Deadline) -> Result<Answer, Error> {
        let left = deadline.left();
        if left.is_zero() {
            return Err(Error::new(Class::Timeout, "no time was left to ask"));
        }
        self.handshake.stage.begin();
        let answer = self.send(request, left).and_then(|response| {
            self.handshake.stage.head_is_there();
            read(response, request.limit)
        });
        answer.map_err(|e| failure::explain(&e, &self.handshake, &self.material, left))
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
                    .timeout_connect(Some(failure::time_to_connect(left)));
                self.agent.run(config.build())
            }};
        }
        match &request.body {
            Some(body) => {
                builder = builder.header(header::CONTENT_TYPE, "application/json");
                run!(body.as_slice())
            }
            None => run!(()),
        }
    }

    /// The URL of a request, for messages.
    pub(crate) fn url(&self, request: &Request<'_>) -> String {
        let path = request.path.split('?').next().unwrap_or_default();
        format!("{} {}{path}{}", request.method, self.base, self.by_way_of)
    }
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
    Ok(Answer {
        status: response.status().as_u16(),
        content_type,
        retry_after,
        body: response.body_mut().with_config().limit(largest).read_to_vec()?,
    })
}
