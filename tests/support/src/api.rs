//! A small API server for tests: TLS on loopback, Kubernetes' own answers byte for byte, and only the tokens it was
//! told to accept.
//!
//! What it answers is looked up in this order: what a test scripted ([`Api::set_answer`], [`Api::set_door`]), then
//! authentication, then permissions ([`Api::forbid`]), then the objects a test put in ([`Api::put`] and its kin),
//! TokenRequest and the self reviews among them. It stands in for the real one where a test must be quick or must see
//! a failure that cannot be ordered from a real server; `scripts/e2e` has the real one.

mod answer;
mod control;
mod http;
mod identity;
mod objects;
mod routes;
mod server;
mod socket;
mod wire;

use std::{
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

use self::{answer::Script, identity::Identities, objects::Objects};
pub use self::{
    answer::{Answer, Framing, Pace},
    http::Request,
    identity::{Bound, User},
    objects::Resource,
    server::Door,
    socket::BlackHole,
};
use crate::pki::{Pair, Pki};

/// A running server. It stops when it is dropped.
pub struct Api {
    shared: Arc<Shared>,
    listeners: server::Listeners,
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Seen {
    /// `GET`, `POST`, ...
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// What follows `?`, or nothing.
    pub query: String,
    /// Header names in lower case, with their values; `authorization` is left out.
    pub headers: Vec<(String, String)>,
    /// Who it was taken for: a user's name, `system:anonymous`, or none when the credential was refused.
    pub user: Option<String>,
    /// What was answered; 0 when it was cut or left waiting.
    pub status: u16,
    /// On which connection it came, counted from 1.
    pub connection: usize,
}

pub(crate) type Route = Box<dyn Fn(&Request) -> Option<Answer> + Send>;

pub(crate) struct State {
    pub(crate) tls: Arc<rustls::ServerConfig>,
    pub(crate) door: Door,
    pub(crate) scripts: Vec<Script>,
    pub(crate) routes: Vec<Route>,
    pub(crate) identities: Identities,
    pub(crate) forbidden: Vec<(String, String)>,
    pub(crate) objects: Objects,
    pub(crate) seen: Vec<Seen>,
    pub(crate) connections: usize,
    pub(crate) stopped: bool,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub(crate) wire: wire::Count,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere must not hide its message behind a poisoned lock.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn saw(&self, seen: Seen) {
        self.state().seen.push(seen);
        self.changed.notify_all();
    }
}

impl Api {
    /// Starts a server on free ports of 127.0.0.1 and ::1, with a certificate of the first authority; client
    /// certificates of that authority are accepted once their user is known ([`Api::accept_certificate`]).
    pub fn start(pki: &Pki) -> Self {
        Self::start_with(&pki.ca.server(), pki.ca.pem())
    }

    /// Starts a server with this certificate and this bundle of authorities for clients.
    pub fn start_with(certificate: &Pair, client_authorities: &str) -> Self {
        Self::open(None, certificate, client_authorities)
    }

    /// Starts a server at this address, for scripts that made a place for it; on `::1` it takes a free port.
    pub fn start_at(address: SocketAddr, certificate: &Pair, client_authorities: &str) -> Self {
        let v6 = ([0, 0, 0, 0, 0, 0, 0, 1], 0).into();
        Self::open(Some((address, v6)), certificate, client_authorities)
    }

    fn open(at: Option<(SocketAddr, SocketAddr)>, certificate: &Pair, client_authorities: &str) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                tls: server::tls_config(certificate, client_authorities),
                door: Door::Open,
                scripts: Vec::new(),
                routes: Vec::new(),
                identities: Identities::default(),
                forbidden: Vec::new(),
                objects: Objects::default(),
                seen: Vec::new(),
                connections: 0,
                stopped: false,
            }),
            changed: Condvar::new(),
            wire: wire::Count::default(),
        });
        let listeners = server::Listeners::open(&shared, at);
        Self { shared, listeners }
    }

    // === where it is ===

    /// `https://127.0.0.1:<port>`
    pub fn url(&self) -> String {
        format!("https://{}", self.listeners.v4)
    }

    /// `https://[::1]:<port>`
    pub fn url_v6(&self) -> String {
        format!("https://{}", self.listeners.v6)
    }

    /// The IPv4 address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listeners.v4
    }

    /// Stops listening; connections are refused until [`Api::resume`]. Open ones are left alone.
    pub fn pause(&mut self) {
        self.listeners.close(&self.shared);
    }

    /// Listens again on the same ports.
    pub fn resume(&mut self) {
        self.listeners = server::Listeners::open(&self.shared, Some((self.listeners.v4, self.listeners.v6)));
    }

    /// From now on new connections get this certificate, and clients may come with one of these authorities.
    pub fn use_certificate(&self, certificate: &Pair, client_authorities: &str) {
        self.shared.state().tls = server::tls_config(certificate, client_authorities);
    }

    // === what it saw ===

    /// Every request so far, in the order of the answers.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.state().seen.clone()
    }

    /// How many TCP connections were taken so far.
    pub fn connections(&self) -> usize {
        self.shared.state().connections
    }

    /// How many bytes of TCP payload came in and went out so far, TLS and all.
    pub fn bytes(&self) -> (u64, u64) {
        self.shared.wire.so_far()
    }

    /// Forgets the requests, connections and bytes so far.
    pub fn clear_requests(&self) {
        self.shared.wire.clear();
        let mut state = self.shared.state();
        state.seen.clear();
        state.connections = 0;
    }

    /// Waits until the requests so far fulfil this, and gives them; panics with all of them when it takes longer.
    pub fn wait_for(&self, within: Duration, done: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let state = self.shared.state();
        let (state, wait) = self
            .shared
            .changed
            .wait_timeout_while(state, within, |s| !done(&s.seen))
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        assert!(
            !wait.timed_out(),
            "not seen within {within:?}; requests so far: {:#?}",
            state.seen
        );
        state.seen.clone()
    }
}

impl Seen {
    /// The value of a header, its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.listeners.close(&self.shared);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
        time::Instant,
    };

    use rustls::{
        ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring, pki_types::CertificateDer,
    };
    use serde_json::{Value, json};

    use super::*;

    /// Sends one request on a connection of its own and reads until the server closes it.
    fn ask(api: &Api, pki: &Pki, request: &str, token: &str, body: &str) -> String {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(pki.ca.der().to_vec())).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "127.0.0.1".try_into().unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(tls, TcpStream::connect(api.address()).unwrap());
        let authorization = if token.is_empty() {
            String::new()
        } else {
            format!("Authorization: Bearer {token}\r\n")
        };
        let length = body.len();
        write!(
            stream,
            "{request} HTTP/1.1\r\n{authorization}Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream.sock.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn a_token_is_accepted_until_it_is_refused_and_a_minted_one_until_its_node_is_gone() {
        let pki = Pki::new();
        let api = Api::start(&pki);
        let pod = "GET /api/v1/namespaces/shop/pods/web-0";
        api.put_pod("shop", "web-0", json!({"kind": "Pod", "apiVersion": "v1"}));
        api.put_node("node1", "uid-1");

        assert!(ask(&api, &pki, pod, "", "").contains("User \\\"system:anonymous\\\" cannot get"));
        assert!(ask(&api, &pki, pod, "one", "").starts_with("HTTP/1.1 401"));
        api.accept_token("one", "system:serviceaccount:linkerd-cni:linkerd-cni");
        assert!(ask(&api, &pki, pod, "one", "").starts_with("HTTP/1.1 200"));

        let mint = "POST /api/v1/namespaces/linkerd-cni/serviceaccounts/plugin/token";
        let spec = json!({"spec": {"boundObjectRef": {"kind": "Node", "name": "node1", "uid": "uid-1"}}});
        let minted = ask(&api, &pki, mint, "one", &spec.to_string());
        let minted: Value = serde_json::from_str(minted.split_once("\r\n\r\n").unwrap().1).unwrap();
        let token = minted["status"]["token"].as_str().unwrap();
        assert!(ask(&api, &pki, pod, token, "").starts_with("HTTP/1.1 200"));
        api.remove("/api/v1/nodes/node1");
        assert!(ask(&api, &pki, pod, token, "").starts_with("HTTP/1.1 401"));

        api.refuse_token("one");
        assert!(ask(&api, &pki, pod, "one", "").starts_with("HTTP/1.1 401"));
        let seen = api.requests();
        assert_eq!(seen.len(), 7, "{seen:#?}");
        assert_eq!(api.connections(), 7);
    }

    #[test]
    fn a_black_hole_takes_no_connection_and_refuses_none() {
        let hole = BlackHole::open();
        let start = Instant::now();
        let error = TcpStream::connect_timeout(&hole.address(), Duration::from_millis(200)).unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::TimedOut,
            "after {:?}",
            start.elapsed()
        );
    }

    #[test]
    fn a_paused_server_refuses_and_listens_on_the_same_port_afterwards() {
        let pki = Pki::new();
        let mut api = Api::start(&pki);
        let address = api.address();
        api.pause();
        assert_eq!(
            TcpStream::connect(address).unwrap_err().kind(),
            std::io::ErrorKind::ConnectionRefused
        );
        api.resume();
        assert_eq!(api.address(), address);
        assert!(ask(&api, &pki, "GET /readyz", "", "").ends_with("\r\n\r\nok"));
    }
}
