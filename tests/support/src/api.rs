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
mod tokens;
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
use crate::{
    budget::within,
    pki::{Pair, Pki},
};

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

    /// Waits until `done` holds for the requests so far and returns them.
    ///
    /// # Panics
    /// When that takes longer than [`within`] the budget.
    pub fn wait_for(&self, budget: Duration, done: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let state = self.shared.state();
        let (state, wait) = self
            .shared
            .changed
            .wait_timeout_while(state, within(budget), |s| !done(&s.seen))
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        assert!(
            !wait.timed_out(),
            "not seen within {budget:?}; requests so far: {:#?}",
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
mod tests;
