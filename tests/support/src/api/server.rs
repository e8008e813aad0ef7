//! Listeners, TLS and one thread per connection.

use std::{
    io::{BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread::{self, JoinHandle},
};

use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

use super::{
    Pace, Seen, Shared,
    http::{self, Request, Written},
    routes, socket,
    wire::Counted,
};
use crate::pki::Pair;

/// What happens to a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// TLS, then requests.
    Open,
    /// Taken, and then not one byte: a black hole at the TLS handshake.
    Silent,
    /// Reset as soon as it is taken.
    Reset,
    /// Reset when the client's first bytes have come.
    ResetInHandshake,
    /// Plain text instead of TLS, as a web server on the wrong port speaks.
    NotTls,
    /// HTTP without TLS, for a server URL of `http://`.
    Plain,
}

/// The two listening sockets and their threads.
pub(crate) struct Listeners {
    pub(crate) v4: SocketAddr,
    pub(crate) v6: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Listeners {
    /// Listens on these addresses, or on free ports.
    pub(crate) fn open(shared: &Arc<Shared>, at: Option<(SocketAddr, SocketAddr)>) -> Self {
        shared.state().stopped = false;
        let (v4, v6) = at.unwrap_or((([127, 0, 0, 1], 0).into(), ([0, 0, 0, 0, 0, 0, 0, 1], 0).into()));
        let (v4, v6) = (
            TcpListener::bind(v4).expect("listen on 127.0.0.1"),
            TcpListener::bind(v6).expect("listen on ::1"),
        );
        let address = |l: &TcpListener| l.local_addr().expect("a bound address");
        let (a4, a6) = (address(&v4), address(&v6));
        let threads = [v4, v6].map(|listener| {
            let shared = Arc::clone(shared);
            thread::spawn(move || accept(&listener, &shared))
        });
        Self {
            v4: a4,
            v6: a6,
            threads: threads.into(),
        }
    }

    /// Stops listening and waits until the ports are free.
    pub(crate) fn close(&mut self, shared: &Shared) {
        if self.threads.is_empty() {
            return;
        }
        shared.state().stopped = true;
        for address in [self.v4, self.v6] {
            // Wakes the accept; that thread then sees that it is to stop.
            let _ = TcpStream::connect(address);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let number = {
            let mut state = shared.state();
            if state.stopped {
                return;
            }
            state.connections += 1;
            state.connections
        };
        if let Ok(stream) = stream {
            let shared = Arc::clone(shared);
            thread::spawn(move || serve(stream, &shared, number));
        }
    }
}

fn serve(mut tcp: TcpStream, shared: &Arc<Shared>, number: usize) {
    let (door, tls) = {
        let state = shared.state();
        (state.door, Arc::clone(&state.tls))
    };
    let _ = tcp.set_nodelay(true);
    match door {
        Door::Open => {}
        Door::Silent => return wait_for_the_end(&mut tcp),
        Door::Reset => return socket::reset(tcp),
        Door::ResetInHandshake => {
            let _ = tcp.read(&mut [0; 16]);
            return socket::reset(tcp);
        }
        Door::NotTls => {
            let _ =
                tcp.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            return;
        }
        Door::Plain => {
            let Ok(mut raw) = tcp.try_clone() else { return };
            return requests(Counted::new(tcp, shared), shared, number, &[], &mut raw);
        }
    }
    let Ok(mut raw) = tcp.try_clone() else { return };
    let mut tcp = Counted::new(tcp, shared);
    let Ok(mut connection) = ServerConnection::new(tls) else {
        return;
    };
    while connection.is_handshaking() {
        if connection.complete_io(&mut tcp).is_err() {
            return;
        }
    }
    let certificate = connection
        .peer_certificates()
        .map(|c| c[0].to_vec())
        .unwrap_or_default();
    requests(
        StreamOwned::new(connection, tcp),
        shared,
        number,
        &certificate,
        &mut raw,
    );
}

/// Answers requests until the client leaves or an answer ends the connection.
fn requests(
    stream: impl Read + Write,
    shared: &Shared,
    number: usize,
    certificate: &[u8],
    raw: &mut TcpStream,
) {
    let mut stream = BufReader::new(stream);
    while let Ok(Some(request)) = Request::read(&mut stream) {
        let (user, answer) = routes::answer(&mut shared.state(), &request, certificate);
        // Noted before the answer leaves: a client that has its answer finds its request in the log.
        let seen = Seen {
            method: request.method.clone(),
            path: request.path.clone(),
            query: request.query.clone(),
            headers: request
                .headers
                .iter()
                .filter(|(n, _)| n != "authorization")
                .cloned()
                .collect(),
            user,
            status: if matches!(answer.pace, Pace::Never | Pace::Reset) {
                0
            } else {
                answer.status
            },
            connection: number,
        };
        shared.saw(seen);
        match http::write(stream.get_mut(), &answer) {
            Ok(Written::Whole) => {}
            Ok(Written::Stalled) => return wait_for_the_end(raw),
            Ok(Written::Reset) => {
                if let Ok(raw) = raw.try_clone() {
                    socket::reset(raw);
                }
                return;
            }
            Ok(Written::Last) | Err(_) => break,
        }
    }
    let _ = raw.shutdown(std::net::Shutdown::Both);
}

/// Holds the connection open, silent, until the client gives up.
fn wait_for_the_end(tcp: &mut TcpStream) {
    let mut ignored = [0; 1024];
    while matches!(tcp.read(&mut ignored), Ok(n) if n > 0) {}
}

/// A server's TLS side with this certificate; client certificates are asked for, not demanded.
pub(crate) fn tls_config(pair: &Pair, client_authorities: &str) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(client_authorities.as_bytes()).flatten());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("TLS versions the provider has");
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .expect("a verifier from parsed authorities");
        builder.with_client_cert_verifier(verifier)
    };
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .expect("a server certificate as PEM");
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a server key as PEM");
    Arc::new(
        builder
            .with_single_cert(chain, key)
            .expect("a certificate that fits its key"),
    )
}

/// The first certificate of a PEM text as DER.
pub(crate) fn first_der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .expect("a certificate as PEM")
        .to_vec()
}
