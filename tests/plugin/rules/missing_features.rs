//! A kernel whose nf_tables lacks the expressions that the rules need (`nat`, `redir`): ADD falls back to iptables, and
//! later calls find the rules there.

use std::ffi::OsStr;

use evergreen_cni::{
    net::cidr::Family,
    policy::intent::Redirect,
    protocol::netconf::IptablesMode,
    rules::{nft, ruleset::Ruleset},
};
use evergreen_test_support::{
    netns::Namespace,
    run::{CniCall, CniReply},
    strace::strace,
};
use serde_json::json;

use crate::{
    node::{self, Node},
    rules::iptables::{apply, saved, tools},
    rules::ruleset::{ports, usual},
};

const MODES: [(IptablesMode, &str); 3] = [
    (IptablesMode::Legacy, "legacy"),
    (IptablesMode::Nft, "nft"),
    (IptablesMode::Plain, "plain"),
];

/// The IPv4 ruleset of the meshed pod.
fn wanted() -> Ruleset {
    Ruleset::build(&Redirect {
        families: vec![Family::V4],
        skip_outbound: ports("5432,6379"),
        ..usual()
    })
}

/// Does what ADD does on such a kernel: writes the marker table, then the iptables rules.
fn fall_back(namespace: &Namespace, mode: IptablesMode) {
    namespace.run(nft::mark).unwrap();
    apply(namespace, &wanted(), tools(mode));
}

fn call(node: &Node, namespace: &Namespace, mode: &str, verb: &str) -> CniCall {
    let mut netconf = node.netconf(&["192.0.2.2/24"]);
    netconf["log_level"] = json!("info");
    netconf["linkerd"] = json!({"iptables-mode": mode, "inbound-ports-to-ignore": ["4190-4191"]});
    node::call(verb, namespace, &netconf)
}

#[track_caller]
fn silent(reply: &CniReply) {
    assert_eq!((reply.exit_code, &*reply.stdout), (Some(0), ""), "{reply:?}");
}

#[test]
fn check_and_del_follow_the_used_backend() {
    let node = Node::new();
    for (mode, word) in MODES {
        let namespace = Namespace::new();
        let before = saved(&namespace);
        fall_back(&namespace, mode);
        silent(&call(&node, &namespace, word, "CHECK").run().unwrap());
        let save = namespace.command("iptables-save", &["-t", "nat"]);
        let variant = if word == "legacy" {
            "iptables-legacy"
        } else {
            "iptables-nft"
        };
        namespace.command(variant, &["-t", "nat", "-F", "EVERGREEN_CNI_OUT"]);
        let drift = call(&node, &namespace, word, "CHECK").fail().unwrap();
        let message = drift["msg"].as_str().unwrap();
        assert!(message.contains("EVERGREEN_CNI_OUT"), "{word}: {message}\n{save}");
        silent(&call(&node, &namespace, word, "DEL").run().unwrap());
        assert_eq!(saved(&namespace), before, "{word}");
        let none = call(&node, &namespace, word, "CHECK").fail().unwrap();
        assert_eq!(none["code"], 104, "{word}: {none}");
    }
}

#[test]
fn del_removes_rules_of_both_backends() {
    let node = Node::new();
    for (mode, word) in MODES {
        let namespace = Namespace::new();
        let before = saved(&namespace);
        fall_back(&namespace, mode);
        namespace.run(|| nft::apply(&wanted())).unwrap();
        let reply = call(&node, &namespace, word, "DEL").run().unwrap();
        silent(&reply);
        assert!(reply.stderr.contains("removed=true"), "{reply:?}");
        assert_eq!(saved(&namespace), before, "{word}");
        assert!(
            !namespace.nft_list().contains("evergreen"),
            "{word}: {}",
            namespace.nft_list()
        );
    }
}

#[test]
fn second_interface_does_not_program_again() {
    let node = Node::new();
    let namespace = Namespace::new();
    fall_back(&namespace, IptablesMode::Legacy);
    let before = namespace.nft_list();
    let second = |verb| call(&node, &namespace, "legacy", verb).env("CNI_IFNAME", "net1");
    second("ADD").succeed().unwrap();
    assert_eq!(
        namespace.nft_list(),
        before,
        "ADD wrote nf_tables rules beside the iptables rules"
    );
    silent(&second("CHECK").run().unwrap());
}

#[test]
fn no_program_is_started_without_a_fallback() {
    let node = Node::new();
    let namespace = Namespace::new();
    namespace.command_with_input(
        "iptables-nft-restore",
        &[],
        "*nat\n:OTHERS - [0:0]\n-A OUTPUT -j OTHERS\nCOMMIT\n",
    );
    let output = node.path("trace");
    let strace = strace(&output, &["-e", "trace=execve,execveat"]);
    let strace: Vec<&OsStr> = strace.iter().map(AsRef::as_ref).collect();
    for verb in ["ADD", "CHECK", "DEL"] {
        let reply = call(&node, &namespace, "legacy", verb)
            .run_under(&strace)
            .unwrap();
        assert_eq!(reply.exit_code, Some(0), "{verb}: {reply:?}");
        let traced = std::fs::read_to_string(&output).unwrap();
        let started = traced.lines().filter(|line| line.contains("execve")).count();
        assert_eq!(started, 1, "{verb} started another program: {traced}");
    }
}
