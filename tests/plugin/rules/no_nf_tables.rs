//! A kernel without nf_tables: ADD, CHECK and DEL use the iptables variant that works there.

use std::path::PathBuf;

use evergreen_cni::{
    protocol::netconf::IptablesMode,
    rules::{iptables, nft, ruleset::Ruleset},
};
use evergreen_test_support::netns::{Wire, without_nf_tables};
use serde_json::json;

use super::{
    iptables::{saved, tools},
    ruleset::usual,
};
use crate::{
    netns::redirect::assert_redirected,
    node::{self, Node},
};

#[test]
fn working_iptables_variant_is_chosen() {
    let wire = Wire::new();
    let ruleset = Ruleset::build(&usual());
    let error = without_nf_tables(|| wire.pod.run(|| nft::apply(&ruleset))).unwrap_err();
    assert!(error.is_no_nf_tables(), "{error}");
    assert!(
        error
            .to_string()
            .ends_with("this kernel has no nf_tables: load the module nf_tables"),
        "{error}"
    );
    let removed = without_nf_tables(|| wire.pod.run(nft::remove)).unwrap_err();
    assert!(removed.is_no_nf_tables(), "{removed}");

    let used = without_nf_tables(|| {
        wire.pod
            .run(|| iptables::apply(&ruleset, tools(IptablesMode::Nft)))
    });
    let programs = [
        "/usr/sbin/iptables-legacy-restore",
        "/usr/sbin/ip6tables-legacy-restore",
    ];
    assert_eq!(
        used.unwrap_or_else(|e| panic!("{e}")),
        programs.map(PathBuf::from)
    );
    assert_redirected(&wire);
}

#[test]
fn replies_are_the_same_without_nf_tables() {
    let (node, wire) = (Node::new(), Wire::new());
    let mut netconf = node.netconf(&["192.0.2.2/24", "fd77::2/64"]);
    netconf["log_level"] = json!("info");
    netconf["linkerd"] =
        json!({"iptables-mode": "nft", "ipv6": true, "inbound-ports-to-ignore": ["4190-4191"]});
    let call = |verb: &str| {
        let reply = without_nf_tables(|| node::call(verb, &wire.pod, &netconf).run());
        reply.unwrap_or_else(|e| panic!("{verb}: {e:#}"))
    };
    let added = call("ADD");
    assert_eq!(added.document().unwrap(), netconf["prevResult"], "{added:?}");
    assert!(
        added.stderr.contains("backend=iptables-legacy"),
        "the log says which: {added:?}"
    );
    assert_eq!(wire.pod.nft_list(), "");
    assert_redirected(&wire);
    let checked = call("CHECK");
    assert_eq!(
        (checked.exit_code, &*checked.stdout),
        (Some(0), ""),
        "{checked:?}"
    );
    let deleted = call("DEL");
    assert_eq!(
        (deleted.exit_code, &*deleted.stdout),
        (Some(0), ""),
        "{deleted:?}"
    );
    assert!(!saved(&wire.pod).contains("EVERGREEN"), "{}", saved(&wire.pod));
    let checked = call("CHECK").document().unwrap();
    let message = checked["msg"].as_str().unwrap();
    assert!(
        message.contains("chain EVERGREEN_CNI_IN of the IPv4 table nat is missing"),
        "{message}"
    );
}
