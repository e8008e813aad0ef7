//! One request on one connection. Knows no retries and does not interpret the response.

use std::time::Duration;

use ureq::{
    Agent, Body, Proxy,
    config::Config,
    http::{HeaderName, HeaderValue, Response as HttpResponse, header},
    unversioned::transport::{ConnectProxyConnector, Connector as _, SocksConnector, TcpConnector},
};

use super::{
    failure,
    request::{Request, Response},
    resolver::TimedResolver,
};
use crate::{
    credentials::material::Material,
    deadline::Deadline,
    error::{Class, Error},
    kubeconfig::Kubeconfig,
    log::Log,
    tls::{Handshake, Tls},
};

/// Bytes for input: one TLS record. The default of 128 KiB would double the memory of the process.
const INPUT: usize = 16 << 10;
/// Bytes for output, in addition to our headers: a request line, headers for a proxy. All of it is zeroed before use.
const OUTPUT: usize = 4 << 10;

/// A server, our credentials for it, and the connection once there is one.
pub(crate) struct Session {
    agent: Agent,
    base: String,
    /// How a message names the proxy; empty without one.
    via: String,
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
        // Never the URL itself: it may contain a password.
        let via = proxy
            .as_ref()
            .map_or_else(String::new, |p| format!(" via proxy {}:{}", p.host(), p.port()));
        Ok(Self {
            agent: Agent::with_parts(config(proxy, &headers), connector, TimedResolver),
            base: kubeconfig.server.to_string(),
            via,
            headers,
            handshake: tls.handshake,
            material,
        })
    }

    /// Sends the request once. The response must be complete by the deadline.
    pub(crate) fn send(&self, request: &Request<'_>, deadline: Deadline) -> Result<Response, Error> {
        let left = deadline.left();
        if left.is_zero() {
            return Err(Error::new(
                Class::Timeout,
                "the deadline passed before the request was sent",
            ));
        }
        self.handshake.stage.begin();
        let result = self.run(request, left).and_then(|response| {
            self.handshake.stage.headers_received();
            read(response, request.limit)
        });
        result.map_err(|e| failure::explain(&e, &self.handshake, &self.material, left))
    }

    fn run(&self, request: &Request<'_>, left: Duration) -> Result<HttpResponse<Body>, ureq::Error> {
        let mut builder = ureq::http::Request::builder()
            .method(request.method.clone())
            .uri(format!("{}{}", self.base, request.path));
        for (name, value) in &self.headers {
            // Adds and does not replace: impersonated groups are several headers of one name.
            builder = builder.header(name, value);
        }
        macro_rules! run {
            ($body:expr) => {{
                let request = builder.body($body)?;
                let config = self.agent.configure_request(request);
                let config = config
                    .timeout_global(Some(left))
                    .timeout_connect(Some(failure::connect_timeout(left)));
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

    /// Returns method and URL of a request, for messages.
    pub(crate) fn url(&self, request: &Request<'_>) -> String {
        let path = request.path.split('?').next().unwrap_or_default();
        format!("{} {}{path}{}", request.method, self.base, self.via)
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
        .ok_or_else(|| Error::new(Class::Kubeconfig, "proxy-url is not a valid proxy URL"))
}

fn config(proxy: Option<Proxy>, headers: &[(HeaderName, HeaderValue)]) -> Config {
    // The headers must fit as a whole, and some tokens are tens of kilobytes.
    let size: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    Config::builder()
        // Set even to none: the default is to read the environment.
        .proxy(proxy)
        // An API server does not redirect, and a token must not follow a redirect elsewhere.
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("evergreen-cni/", env!("CARGO_PKG_VERSION")))
        .accept("application/json")
        .input_buffer_size(INPUT)
        .output_buffer_size(OUTPUT + size)
        .max_idle_connections(1)
        .build()
}

fn headers(kubeconfig: &Kubeconfig, material: &Material) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
    let mut headers = Vec::new();
    if let Some((token, source)) = &material.token {
        let bearer = [b"Bearer ", token.reveal()].concat();
        let mut value = HeaderValue::from_bytes(&bearer).map_err(|_| {
            Error::new(
                Class::Credential,
                format!("the token from {source} is not a valid HTTP header value"),
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
                Error::new(Class::Kubeconfig, format!("{name} is not a valid HTTP header"))
            })?);
    }
    Ok(headers)
}

fn read(mut response: HttpResponse<Body>, largest: u64) -> Result<Response, ureq::Error> {
    let text = |name: HeaderName| {
        response
            .headers()
            .get(name)
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned)
    };
    let content_type = text(header::CONTENT_TYPE).unwrap_or_default();
    // Seconds, as every API server sends it; a date is ignored in favour of our own pauses.
    let retry_after = text(header::RETRY_AFTER)
        .and_then(|v| v.trim().parse().ok())
        .map(Duration::from_secs);
    Ok(Response {
        status: response.status().as_u16(),
        content_type,
        retry_after,
        body: response.body_mut().with_config().limit(largest).read_to_vec()?,
    })
}
