//! A copied token that must be followed although nothing else changes.

use std::{fs, thread, time::Duration};

use evergreen_test_support::budget::within;

use crate::node::{CA, CALICO, Node};

/// Two tokens of an issuer that does not name the pod (claims `sub`, `exp` in 2100, `jti`).
const TOKENS: [&str; 2] = [
    "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6bGlua2VyZC1jbmk6bGlua2VyZC1jbmkiLCJleHAiOjQxMDI0NDQ4MDAsImp0aSI6IjEifQ.c2ln",
    "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6bGlua2VyZC1jbmk6bGlua2VyZC1jbmkiLCJleHAiOjQxMDI0NDQ4MDAsImp0aSI6IjIifQ.c2ln",
];

#[test]
fn copied_token_is_followed_while_minting_fails() {
    // Nothing listens on port 1: the TokenRequest uses its whole five seconds.
    let mut node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("EVERGREEN_TOKEN_SOURCE", "auto")
        .with("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        .with("KUBERNETES_SERVICE_PORT", "1");
    node.rotate(TOKENS[0], CA);
    let mut installer = node.start_and_wait_for("10-calico.conflist");
    let token = node.net("linkerd-cni.evergreen/token");
    for n in [1, 0, 1] {
        // Reconcile passes for other events must not mistake the copy for a minted token.
        fs::write(node.net("unrelated"), "x").unwrap();
        thread::sleep(Duration::from_millis(200));
        node.rotate(TOKENS[n], CA);
        let took = installer.until(&node, "the new token is on the node", || {
            fs::read_to_string(&token).unwrap() == TOKENS[n]
        });
        assert!(
            took < within(Duration::from_secs(1)),
            "{took:?}: {}",
            installer.log()
        );
    }
}

#[test]
fn repeated_rewrites_meet_growing_delays() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let mut installer = node.start_and_wait_for("10-calico.conflist");
    for (n, delay) in [0, 1, 2, 4].into_iter().enumerate() {
        fs::write(node.net("10-calico.conflist"), CALICO).unwrap();
        let took = installer.until(&node, "the entry is restored", || {
            node.has_entry("10-calico.conflist")
        });
        let most = Duration::from_secs(delay) + within(Duration::from_millis(500));
        assert!(took < most, "rewrite {n}: {took:?}\n{}", installer.log());
    }
}
