//! The link in ureq's chain of connectors that wraps a TCP or proxied connection in TLS.

use std::{
    fmt,
    io::{self, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter,
    time::{Duration, Instant},
};

/// The progress of the latest connection: a timeout names what it was waiting for.
#[derive(Debug, Default)]
pub struct Stage(AtomicU8);

impl Stage {
    const CONNECTING: u8 = 0;
    const HANDSHAKE: u8 = 1;
    const REQUEST: u8 = 2;
    const BODY: u8 = 3;

    /// Marks the start of a request. After a complete response there is a connection to reuse; if it turns out to be
    /// closed, the new connection corrects this.
    pub(crate) fn begin(&self) {
        let connected = self.0.load(Ordering::Relaxed) == Self::BODY;
        let stage = if connected {
            Self::REQUEST
        } else {
            Self::CONNECTING
        };
        self.0.store(stage, Ordering::Relaxed);
    }

    /// Marks the arrival of the response headers.
    pub(crate) fn headers_received(&self) {
        self.0.store(Self::BODY, Ordering::Relaxed);
    }

    /// Returns what is being waited for.
    pub(crate) fn waiting_for(&self) -> &'static str {
        match self.0.load(Ordering::Relaxed) {
            Self::CONNECTING => "a TCP connection",
            Self::HANDSHAKE => "the TLS handshake",
            Self::REQUEST => "the first byte of the response",
            _ => "the rest of the response",
        }
    }
}

/// Adds TLS to the connection of the connectors before it.
#[derive(Debug)]
pub struct TlsConnector {
    /// rustls' configuration.
    pub config: Arc<ClientConfig>,
    /// The name in the API server's certificate.
    pub name: ServerName<'static>,
    /// Host and port of the API server, to tell it from a proxy.
    pub server: (String, u16),
    /// Records the progress.
    pub stage: Arc<Stage>,
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() || transport.is_tls() {
            if self.is_server(details) {
                self.stage.0.store(Stage::REQUEST, Ordering::Relaxed);
            }
            return Ok(Some(Either::A(transport)));
        }
        self.stage.0.store(Stage::HANDSHAKE, Ordering::Relaxed);
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name_for(details)?);
        let mut connection = connection.map_err(|e| ureq::Error::Io(io::Error::other(e)))?;
        let mut socket = TransportAdapter::new(transport.boxed(), Arc::clone(&details.current_time));
        socket.set_timeout(time_left(details));
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        self.stage.0.store(Stage::REQUEST, Ordering::Relaxed);
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(Either::B(TlsTransport {
            buffers,
            stream: StreamOwned::new(connection, socket),
        })))
    }
}

impl TlsConnector {
    /// Returns true for a connection to the API server, false for one to a proxy.
    fn is_server(&self, details: &ConnectionDetails<'_>) -> bool {
        let default = if details.needs_tls() { 443 } else { 80 };
        let address = (host(details), details.uri.port_u16().unwrap_or(default));
        address == (self.server.0.as_str(), self.server.1)
    }

    /// Returns the TLS server name: the kubeconfig's for the API server, its own host for an `https` proxy.
    fn name_for(&self, details: &ConnectionDetails<'_>) -> Result<ServerName<'static>, ureq::Error> {
        if self.is_server(details) {
            return Ok(self.name.clone());
        }
        ServerName::try_from(host(details).to_owned())
            .map_err(|_| ureq::Error::Tls("the proxy's host is not a valid TLS server name"))
    }
}

/// Returns the host of the URL, an IPv6 address without its brackets.
fn host<'a>(details: &ConnectionDetails<'a>) -> &'a str {
    details.uri.host().unwrap_or_default().trim_matches(['[', ']'])
}

/// Returns the part of the connect timeout that TCP has not used.
fn time_left(details: &ConnectionDetails<'_>) -> NextTimeout {
    let mut timeout = details.timeout;
    if let (Duration::Exact(after), Instant::Exact(then), Instant::Exact(now)) =
        (timeout.after, details.now, (details.current_time)())
    {
        timeout.after = Duration::Exact(after.saturating_sub(now.saturating_duration_since(then)));
    }
    timeout
}

/// A TLS connection as ureq uses it.
pub struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = match self.stream.read(self.buffers.input_append_buf()) {
            // Closed without close_notify: many servers do so after a response without a length, and Go accepts it. A
            // truncated response still shows by its length, its last chunk, or as incomplete JSON.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            other => other?,
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTransport")
    }
}
