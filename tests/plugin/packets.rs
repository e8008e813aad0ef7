//! What the rules do to connections: real sockets in real namespaces, against a model that does not know our rules.

mod configurations;
mod model;

use self::{
    configurations::{CONFIGURATIONS, Configuration},
    model::{From, Probe, Protocol, edges, proxy_port, ranges},
};
use evergreen_cni::{
    deadline::Deadline,
    iptables::{self, Tools},
    netconf::IptablesMode,
    nft::{self, Applied},
    ruleset::Ruleset,
};
use evergreen_test_support::netns::{
    Listener, PEER_V4, PEER_V6, POD_V4, POD_V6, Reached, Wire, ask_tcp, ask_tcp_from, ask_udp,
};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::{self, Read, Write as _},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

/// The pod's addresses.
const POD: [&str; 2] = [POD_V4, POD_V6];
/// Where most probes go: a port that no configuration but those meant to names.
const APP: u16 = 8080;
/// Somewhere behind the default route.
const WORLD: [&str; 2] = ["203.0.113.5", "2001:db8::5"];
/// An application's user and group, which no configuration names.
const ANYBODY: From = From::Pod {
    uid: 65534,
    gid: 65534,
};

fn at(address: &str, port: u16) -> SocketAddr {
    (ip(address), port).into()
}

fn ip(address: &str) -> IpAddr {
    address.parse().expect("an address")
}

// === The probes of a configuration ===

fn probes(configuration: &Configuration) -> Vec<Probe> {
    let mut probes = Vec::new();
    let mut add = |from, to, protocol| {
        let probe = Probe { from, to, protocol };
        if !probes.contains(&probe) {
            probes.push(probe);
        }
    };
    let proxy = From::Pod {
        uid: configuration.uid.unwrap_or(65533),
        gid: configuration.gid.unwrap_or(65533),
    };
    let mut users = vec![
        From::Pod { uid: 0, gid: 0 },
        From::Pod { uid: 1000, gid: 1000 },
        ANYBODY,
        proxy,
    ];
    users.extend(configuration.uid.map(|uid| From::Pod { uid, gid: 1000 }));
    users.extend(configuration.gid.map(|gid| From::Pod { uid: 1000, gid }));
    for (family, loopback) in ["127.0.0.1", "::1"].into_iter().enumerate() {
        for from in &users {
            add(*from, at(WORLD[family], APP), Protocol::Tcp);
            add(*from, at(POD[family], APP), Protocol::Tcp);
        }
        add(ANYBODY, at(loopback, APP), Protocol::Tcp);
        add(proxy, at(loopback, APP), Protocol::Tcp);
        add(ANYBODY, at(loopback, configuration.outbound_port), Protocol::Tcp);
        add(ANYBODY, at(WORLD[family], APP), Protocol::Udp);
        add(ANYBODY, at(POD[family], APP), Protocol::Udp);
        let peer = From::World(ip([PEER_V4, PEER_V6][family]));
        add(peer, at(POD[family], APP), Protocol::Tcp);
        add(peer, at(POD[family], APP), Protocol::Udp);
        add(
            From::World(ip(WORLD[family])),
            at(POD[family], APP),
            Protocol::Tcp,
        );
        for port in port_edges(&[configuration.skip_inbound, configuration.inbound_only]) {
            add(peer, at(POD[family], port), Protocol::Tcp);
        }
        for port in port_edges(&[configuration.skip_outbound]) {
            add(ANYBODY, at(WORLD[family], port), Protocol::Tcp);
        }
        for source in source_edges(configuration)
            .into_iter()
            .filter(|a| a.is_ipv4() == (family == 0))
        {
            add(From::World(source), at(POD[family], APP), Protocol::Tcp);
        }
    }
    probes
}

/// The first and last port of each range, and their neighbours; the proxy's well-known ports too.
fn port_edges(lists: &[&str]) -> BTreeSet<u16> {
    let mut edges = BTreeSet::from([80, 443, 4143, 4140, 4191]);
    for (first, last) in lists.iter().flat_map(|list| ranges(list)) {
        edges.extend([
            first.saturating_sub(1).max(1),
            first,
            last,
            last.saturating_add(1),
        ]);
    }
    edges
}

/// The edges of each subnet, but for the pod's own addresses: from those nobody else can come.
fn source_edges(configuration: &Configuration) -> BTreeSet<IpAddr> {
    let sources = configuration.skip_sources.split(',').flat_map(edges);
    sources.filter(|source| !POD.map(ip).contains(source)).collect()
}

// === The world they are tried in ===

/// A pod and its world, with somebody listening wherever a probe may end.
struct World {
    wire: Wire,
    _listeners: [Listener; 2],
}

impl World {
    fn new(configuration: &Configuration, probes: &[Probe]) -> Self {
        let wire = Wire::new();
        // Sources that the peer does not own yet: beside it on the wire by an address, elsewhere by a route.
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

    /// What happened to a probe where it was not what the model says.
    fn difference(&self, configuration: &Configuration, probe: &Probe) -> Option<String> {
        let expected = proxy_port(configuration, probe);
        let found = self.ask(probe);
        let as_expected = found
            .as_ref()
            .is_ok_and(|reached| match (expected, probe.protocol) {
                // At the proxy, in the pod, and it can tell where the connection was to go.
                (Some(port), _) => {
                    reached.at.port() == port
                        && !WORLD.map(ip).contains(&reached.at.ip())
                        && reached.original == Some(probe.to)
                }
                (None, Protocol::Tcp) => reached.at == probe.to,
                (None, Protocol::Udp) => reached.at.port() == probe.to.port(),
            });
        let expected = expected.map_or("left alone".to_owned(), |port| {
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

/// A connection that was there before the rules.
struct Established {
    client: TcpStream,
    server: TcpStream,
}

impl Established {
    /// One from the pod and one to it, in each family.
    fn before(wire: &Wire) -> io::Result<Vec<Self>> {
        // Nat only leaves alone what conntrack knows; in a real pod something has switched it on before.
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

    /// Sends something both ways.
    fn still_works(&mut self) -> io::Result<()> {
        let mut byte = [0];
        self.client.write_all(b"a")?;
        self.server.read_exact(&mut byte)?;
        self.server.write_all(b"b")?;
        self.client.read_exact(&mut byte)
    }
}

// === The matrix ===

/// Counts, and what was not as the model says.
#[derive(Default)]
struct Outcome {
    probes: usize,
    established: usize,
    differences: Vec<String>,
}

/// Tries everything in every configuration, after the first apply and after a second one.
fn matrix(name: &str, apply: impl Fn(&Ruleset, bool) -> Result<(), String> + Sync) {
    let mut outcome = Outcome::default();
    for configuration in &CONFIGURATIONS {
        let ruleset = Ruleset::build(&configuration.redirect());
        let probes = probes(configuration);
        let world = World::new(configuration, &probes);
        let mut established = Established::before(&world.wire).expect("connections before the rules");
        for again in [false, true] {
            let applied = world.wire.pod.run(|| apply(&ruleset, again));
            applied.unwrap_or_else(|e| panic!("{}: {e}", configuration.name));
            let before = outcome.differences.len();
            for (i, connection) in established.iter_mut().enumerate() {
                outcome.established += 1;
                if let Err(e) = connection.still_works() {
                    outcome
                        .differences
                        .push(format!("{}: established connection {i}: {e}", configuration.name));
                }
            }
            for probe in &probes {
                outcome.probes += 1;
                outcome.differences.extend(world.difference(configuration, probe));
                let found = outcome.differences.len();
                assert!(
                    found < before + 10,
                    "{name}: too many differences\n{}\n{ruleset}",
                    outcome.differences.join("\n")
                );
            }
        }
    }
    let line = format!(
        "packet matrix on {name}: {} configurations, {} probes and {} established connections, {} differences",
        CONFIGURATIONS.len(),
        outcome.probes,
        outcome.established,
        outcome.differences.len()
    );
    // Past the test harness, which would keep it: the counts are part of what the suite shows.
    let _ = writeln!(io::stdout(), "{line}");
    assert!(
        outcome.differences.is_empty(),
        "{}",
        outcome.differences.join("\n")
    );
}

#[test]
fn every_connection_goes_where_linkerd_cni_would_send_it() {
    matrix("nf_tables", |ruleset, again| {
        let applied = nft::apply(ruleset).map_err(|e| e.to_string())?;
        assert_eq!(
            applied,
            if again {
                Applied::Replaced
            } else {
                Applied::Created
            }
        );
        let found = nft::read().map_err(|e| e.to_string())?;
        found.matches(ruleset).map_err(|e| e.to_string())
    });
}

#[test]
fn every_connection_goes_the_same_way_on_the_fallback() {
    matrix("iptables-legacy", |ruleset, _| {
        by_iptables(ruleset, IptablesMode::Legacy)
    });
}

#[test]
fn every_connection_goes_the_same_way_on_the_fallback_s_nft_variant() {
    matrix("iptables-nft", |ruleset, _| {
        by_iptables(ruleset, IptablesMode::Nft)
    });
}

fn by_iptables(ruleset: &Ruleset, mode: IptablesMode) -> Result<(), String> {
    let tools = Tools {
        mode,
        path: "",
        deadline: Deadline::after(Duration::from_secs(20)),
    };
    iptables::apply(ruleset, tools).map_err(|e| e.to_string())?;
    let checked = iptables::check(ruleset, tools).map_err(|e| e.to_string())?;
    checked.map_err(|e| e.to_string())
}

// === Linkerd's own test of a pod ===

/// What the init container `linkerd-network-validator` does: as user 65534 it listens where the proxy will, connects to
/// an address behind the default route, and passes if it meets itself.
fn validator(listen: &str, connect: &str) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    let mut client =
        TcpStream::connect_timeout(&connect.parse().expect("an address"), Duration::from_secs(10))?;
    client.set_read_timeout(Some(Duration::from_secs(10)))?;
    let (mut server, _) = listener.accept()?;
    server.write_all(b"a token nobody else knows")?;
    drop(server);
    let mut token = String::new();
    client.read_to_string(&mut token)?;
    (token == "a token nobody else knows")
        .then_some(())
        .ok_or_else(|| io::Error::other(token))
}

#[test]
fn the_network_validator_of_linkerd_meets_itself() {
    let wire = Wire::new();
    let ruleset = Ruleset::build(&CONFIGURATIONS[0].redirect());
    // Without rules nobody listens where it connects to.
    let without = wire
        .pod
        .run_as(65534, 65534, || validator("0.0.0.0:4140", "1.1.1.1:20001"));
    assert_eq!(without.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    wire.pod.run(|| nft::apply(&ruleset)).unwrap();
    for (listen, connect) in [
        ("0.0.0.0:4140", "1.1.1.1:20001"),
        ("[::]:4140", "[fd00::1]:20001"),
    ] {
        wire.pod
            .run_as(65534, 65534, || validator(listen, connect))
            .unwrap_or_else(|e| panic!("{connect}: {e}\n{}", wire.pod.nft_list()));
    }
}
