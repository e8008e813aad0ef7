use std::net::{IpAddr, SocketAddr};

use super::*;

fn at(address: &str, port: u16) -> SocketAddr {
    (address.parse::<IpAddr>().unwrap(), port).into()
}

#[test]
fn both_ends_of_a_wire_reach_each_other_and_the_world_by_both_families() {
    let wire = Wire::new();
    let _peer = Listener::new(&wire.peer, &[at("0.0.0.0", 8080), at("::", 8080)]);
    let _pod = Listener::new(&wire.pod, &[at("0.0.0.0", 8080), at("::", 8080)]);
    for address in [
        PEER_V4,
        PEER_V6,
        "203.0.113.5",
        "2001:db8::5",
        "1.1.1.1",
        "fd00::1",
    ] {
        let reached = wire.pod.run(|| ask_tcp(at(address, 8080))).unwrap();
        assert_eq!(reached.at, at(address, 8080));
        let reached = wire.pod.run(|| ask_udp(at(address, 8080))).unwrap();
        assert_eq!(reached.at.port(), 8080, "{address}");
    }
    for (from, to) in [
        ("10.1.2.3", POD_V4),
        ("172.16.0.9", POD_V4),
        ("2001:db8::9", POD_V6),
    ] {
        let reached = wire
            .peer
            .run(|| ask_tcp_from(from.parse().unwrap(), at(to, 8080)))
            .unwrap();
        assert_eq!(
            (reached.at, reached.from.ip()),
            (at(to, 8080), from.parse::<IpAddr>().unwrap())
        );
    }
}

#[test]
fn a_socket_made_as_another_user_belongs_to_that_user_and_the_redirect_is_seen() {
    let wire = Wire::new();
    wire.pod.nft(
        "table ip t { chain c { type nat hook output priority -100; meta skuid 2102 return; meta skgid 77 return; \
         tcp dport 80 redirect to :4140; }; }\n",
    );
    let _proxy = Listener::new(&wire.pod, &[at("0.0.0.0", 4140)]);
    let _world = Listener::new(&wire.peer, &[at("0.0.0.0", 80)]);
    let to = at("203.0.113.5", 80);
    for (uid, gid, port) in [(0, 0, 4140), (2102, 0, 80), (65534, 77, 80), (65534, 65534, 4140)] {
        let reached = wire.pod.run_as(uid, gid, || ask_tcp(to)).unwrap();
        assert_eq!(reached.at.port(), port, "uid {uid} gid {gid}");
        assert!(port == 80 || reached.original == Some(to), "{reached:?}");
    }
}

#[test]
fn a_dropped_namespace_leaves_no_name_behind() {
    let namespace = Namespace::new();
    let path = namespace.path().to_owned();
    assert!(path.exists());
    drop(namespace);
    assert!(!path.exists());
}
