//! The network namespaces and listeners for the probes of a configuration.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use evergreen_test_support::netns::{
    Listener, PEER_V6, POD_V4, POD_V6, Reached, Wire, ask_tcp, ask_tcp_from, ask_udp,
};

use super::{
    APP, WORLD, at,
    configurations::Configuration,
    ip,
    model::{From, Probe, Protocol, proxy_port},
    source_edges,
};

/// A pod and its peer, with a listener wherever a probe may end.
pub(super) struct World {
    pub(super) wire: Wire,
    _listeners: [Listener; 2],
}

impl World {
    /// Creates the namespaces and listeners that the probes need.
    pub(super) fn new(configuration: &Configuration, probes: &[Probe]) -> Self {
        let wire = Wire::new();
        // Gives the peer each source address: on the shared subnet as an address, elsewhere as a local route.
        let mut lines = String::new();
        for source in source_edges(configuration) {
            let text = source.to_string();
            if text.starts_with("fd77:") {
                let _ = writeln!(lines, "address replace {text}/128 dev eth0 nodad");
            } else {
                let _ = writeln!(lines, "route replace local {text} dev lo");
            }
        }
        wire.peer.ip(&lines);
        let any = |port| [at("0.0.0.0", port), at("::", port)];
        let ends = |inside: bool| -> Vec<SocketAddr> {
            let ends = probes
                .iter()
                .filter(|p| WORLD.map(ip).contains(&p.to.ip()) != inside);
            let mut ports: BTreeSet<u16> = ends.map(|p| p.to.port()).collect();
            if inside {
                ports.extend([configuration.inbound_port, configuration.outbound_port]);
            }
            ports.into_iter().flat_map(any).collect()
        };
        let listeners = [
            Listener::on(&wire.pod, &ends(true), &any(APP)),
            Listener::on(&wire.peer, &ends(false), &any(APP)),
        ];
        Self {
            wire,
            _listeners: listeners,
        }
    }

    fn ask(&self, probe: &Probe) -> io::Result<Reached> {
        match (probe.from, probe.protocol) {
            (From::Pod { uid, gid }, Protocol::Tcp) => self.wire.pod.run_as(uid, gid, || ask_tcp(probe.to)),
            (From::Pod { uid, gid }, Protocol::Udp) => self.wire.pod.run_as(uid, gid, || ask_udp(probe.to)),
            (From::World(source), Protocol::Tcp) => self.wire.peer.run(|| ask_tcp_from(source, probe.to)),
            (From::World(_), Protocol::Udp) => self.wire.peer.run(|| ask_udp(probe.to)),
        }
    }

    /// Returns how a probe ended if the model expects something else.
    pub(super) fn difference(&self, configuration: &Configuration, probe: &Probe) -> Option<String> {
        let expected = proxy_port(configuration, probe);
        let found = self.ask(probe);
        let as_expected = found
            .as_ref()
            .is_ok_and(|reached| match (expected, probe.protocol) {
                // Reached the proxy inside the pod, and the proxy sees the original destination.
                (Some(port), _) => {
                    reached.at.port() == port
                        && !WORLD.map(ip).contains(&reached.at.ip())
                        && reached.original == Some(probe.to)
                }
                (None, Protocol::Tcp) => reached.at == probe.to,
                (None, Protocol::Udp) => reached.at.port() == probe.to.port(),
            });
        let expected = expected.map_or("not redirected".to_owned(), |port| {
            format!("at the proxy's port {port}")
        });
        (!as_expected).then(|| {
            format!(
                "{}: {probe:?}: expected {expected}, found {found:?}",
                configuration.name
            )
        })
    }
}

/// A connection established before the rules.
pub(super) struct Established {
    client: TcpStream,
    server: TcpStream,
}

impl Established {
    /// Opens a connection from the pod and one to it, in each family.
    pub(super) fn before(wire: &Wire) -> io::Result<Vec<Self>> {
        // NAT skips only connections that conntrack knows; in a real pod conntrack is already enabled.
        wire.pod.nft(
            "table inet before { chain i { type filter hook input priority 0; ct state invalid drop; }\n\
             chain o { type filter hook output priority 0; ct state invalid drop; }\n}\n",
        );
        let mut all = Vec::new();
        for (client, server, address) in [
            (&wire.pod, &wire.peer, WORLD[0]),
            (&wire.pod, &wire.peer, PEER_V6),
            (&wire.peer, &wire.pod, POD_V4),
            (&wire.peer, &wire.pod, POD_V6),
        ] {
            let any = if ip(address).is_ipv4() { "0.0.0.0" } else { "::" };
            let listener = server.run(|| TcpListener::bind(at(any, 0)))?;
            let to = at(address, listener.local_addr()?.port());
            let client = client.run(|| TcpStream::connect(to))?;
            let (server, _) = listener.accept()?;
            for end in [&client, &server] {
                end.set_read_timeout(Some(Duration::from_secs(5)))?;
            }
            all.push(Self { client, server });
        }
        Ok(all)
    }

    /// Sends a byte each way.
    pub(super) fn still_works(&mut self) -> io::Result<()> {
        let mut byte = [0];
        self.client.write_all(b"a")?;
        self.server.read_exact(&mut byte)?;
        self.server.write_all(b"b")?;
        self.client.read_exact(&mut byte)
    }
}
