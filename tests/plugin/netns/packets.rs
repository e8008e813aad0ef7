//! Real connections in real network namespaces, compared with a model of linkerd-cni that shares no code with the plugin.

mod configurations;
mod model;
mod world;

use std::{
    collections::BTreeSet,
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use evergreen_cni::{
    protocol::netconf::IptablesMode,
    rules::{
        iptables::{self, Tools},
        nft::{self, Applied},
        ruleset::Ruleset,
    },
};
use evergreen_kube::deadline::Deadline;
use evergreen_test_support::netns::{PEER_V4, PEER_V6, POD_V4, POD_V6, Wire};

use self::{
    configurations::{CONFIGURATIONS, Configuration},
    model::{From, Probe, Protocol, edges, ranges},
    world::{Established, World},
};
use crate::node::report;

/// The pod's addresses.
const POD: [&str; 2] = [POD_V4, POD_V6];
/// The port of most probes. Only configurations about this port list it.
const APP: u16 = 8080;
/// Addresses behind the default route.
const WORLD: [&str; 2] = ["203.0.113.5", "2001:db8::5"];
/// An application's user and group, which no configuration names.
const ANY_USER: From = From::Pod {
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
        ANY_USER,
        proxy,
    ];
    users.extend(configuration.uid.map(|uid| From::Pod { uid, gid: 1000 }));
    users.extend(configuration.gid.map(|gid| From::Pod { uid: 1000, gid }));
    for (family, loopback) in ["127.0.0.1", "::1"].into_iter().enumerate() {
        for from in &users {
            add(*from, at(WORLD[family], APP), Protocol::Tcp);
            add(*from, at(POD[family], APP), Protocol::Tcp);
        }
        add(ANY_USER, at(loopback, APP), Protocol::Tcp);
        add(proxy, at(loopback, APP), Protocol::Tcp);
        add(ANY_USER, at(loopback, configuration.outbound_port), Protocol::Tcp);
        add(ANY_USER, at(WORLD[family], APP), Protocol::Udp);
        add(ANY_USER, at(POD[family], APP), Protocol::Udp);
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
            add(ANY_USER, at(WORLD[family], port), Protocol::Tcp);
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

/// The edges of each subnet, without the pod's own addresses, which no other sender can use.
fn source_edges(configuration: &Configuration) -> BTreeSet<IpAddr> {
    let sources = configuration.skip_sources.split(',').flat_map(edges);
    sources.filter(|source| !POD.map(ip).contains(source)).collect()
}

// === The matrix ===

/// Counts, and differences from the model.
#[derive(Default)]
struct Outcome {
    probes: usize,
    established: usize,
    differences: Vec<String>,
}

/// Runs every probe of every configuration, after the first apply and after a second one.
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
    report(&line);
    assert!(
        outcome.differences.is_empty(),
        "{}",
        outcome.differences.join("\n")
    );
}

#[test]
fn nf_tables_rules_match_linkerd_cni() {
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
fn iptables_legacy_rules_match_linkerd_cni() {
    matrix("iptables-legacy", |ruleset, _| {
        by_iptables(ruleset, IptablesMode::Legacy)
    });
}

#[test]
fn iptables_nft_rules_match_linkerd_cni() {
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

// === Linkerd's network validator ===

/// Does what the init container `linkerd-network-validator` does: listens on the proxy's port as user 65534, connects
/// to an address behind the default route, and succeeds if the connection reaches its own listener.
fn validator(listen: &str, connect: &str) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    let mut client =
        TcpStream::connect_timeout(&connect.parse().expect("an address"), Duration::from_secs(10))?;
    client.set_read_timeout(Some(Duration::from_secs(10)))?;
    let (mut server, _) = listener.accept()?;
    server.write_all(b"a random token")?;
    drop(server);
    let mut token = String::new();
    client.read_to_string(&mut token)?;
    (token == "a random token")
        .then_some(())
        .ok_or_else(|| io::Error::other(token))
}

#[test]
fn linkerd_network_validator_passes() {
    let wire = Wire::new();
    let ruleset = Ruleset::build(&CONFIGURATIONS[0].redirect());
    // Without rules the connection is refused.
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
