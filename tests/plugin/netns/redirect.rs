//! One connection each way and family through the proxy, also beside linkerd-cni's rules.

use std::net::{IpAddr, SocketAddr};

use evergreen_cni::rules::{nft, ruleset::Ruleset};
use evergreen_test_support::netns::{Listener, Namespace, PEER_V4, PEER_V6, POD_V4, POD_V6, Wire, ask_tcp};

use crate::rules::{nft::apply, ruleset::usual};

/// The rules linkerd-cni writes with `iptables-mode: nft` and the chart's values.
pub(crate) fn program_as_linkerd_cni(namespace: &Namespace) {
    for restore in ["iptables-nft-restore", "ip6tables-nft-restore"] {
        namespace.command_with_input(
            restore,
            &[],
            "*nat\n:PROXY_INIT_OUTPUT - [0:0]\n:PROXY_INIT_REDIRECT - [0:0]\n\
             -A PREROUTING -m comment --comment proxy-init/install-proxy-init-prerouting -j PROXY_INIT_REDIRECT\n\
             -A OUTPUT -m comment --comment proxy-init/install-proxy-init-output -j PROXY_INIT_OUTPUT\n\
             -A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -j RETURN\n\
             -A PROXY_INIT_OUTPUT -o lo -j RETURN\n\
             -A PROXY_INIT_OUTPUT -p tcp -j REDIRECT --to-ports 4140\n\
             -A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 4191,4190 -j RETURN\n\
             -A PROXY_INIT_REDIRECT -p tcp -j REDIRECT --to-ports 4143\nCOMMIT\n",
        );
    }
}

fn at(address: &str, port: u16) -> SocketAddr {
    (address.parse::<IpAddr>().expect("an address"), port).into()
}

/// Asserts that connections from and to the pod reach the proxy, which sees their original destination.
pub(crate) fn assert_redirected(wire: &Wire) {
    let _proxy = Listener::new(
        &wire.pod,
        &[
            at("0.0.0.0", 4140),
            at("::", 4140),
            at("0.0.0.0", 4143),
            at("::", 4143),
        ],
    );
    for (from, to, proxy_port) in [
        (&wire.pod, at("203.0.113.5", 8080), 4140),
        (&wire.pod, at("2001:db8::5", 8080), 4140),
        (&wire.pod, at(PEER_V4, 443), 4140),
        (&wire.pod, at(PEER_V6, 443), 4140),
        (&wire.peer, at(POD_V4, 8080), 4143),
        (&wire.peer, at(POD_V6, 8080), 4143),
    ] {
        let reached = from
            .run(|| ask_tcp(to))
            .unwrap_or_else(|e| panic!("to {to}: {e}\n{}", wire.pod.nft_list()));
        assert_eq!(
            (reached.at.port(), reached.original),
            (proxy_port, Some(to)),
            "{}",
            wire.pod.nft_list()
        );
    }
}

#[test]
fn redirected_connection_keeps_its_original_destination() {
    let wire = Wire::new();
    apply(&wire.pod, &Ruleset::build(&usual()));
    assert_redirected(&wire);
}

#[test]
fn linkerd_cni_rules_do_not_redirect_twice() {
    let wire = Wire::new();
    program_as_linkerd_cni(&wire.pod);
    assert_redirected(&wire);
    apply(&wire.pod, &Ruleset::build(&usual()));
    assert_redirected(&wire);
    assert!(wire.pod.run(nft::remove).unwrap());
    assert_redirected(&wire);
}
