//! Evergreen in chains with Debian's plugins, driven by the reference library: block 15 of the conformance matrix, second
//! interfaces, the upgrade from linkerd-cni, and annotations from the runtime.

mod machine;

use std::net::SocketAddr;

use evergreen_test_support::netns::{Listener, Namespace, ask_tcp};
use serde_json::{Value, json};

use self::machine::{GATEWAY, LIBRARIES, Machine, WORLD};
use crate::{netns::redirect::program_as_linkerd_cni, node::report};

/// A port of the node that `portmap` forwards to the pod's port 8080.
const HOST_PORT: u16 = 18080;

fn at(address: &str, port: u16) -> SocketAddr {
    format!("{address}:{port}").parse().unwrap()
}

/// Returns the pod's address from a result of any version since 0.3.0.
fn address(result: &Value) -> String {
    let address = result["ips"][0]["address"].as_str();
    let address = address.unwrap_or_else(|| panic!("no address in {result}"));
    address.split('/').next().unwrap_or_default().to_owned()
}

/// Returns a result without the values that differ between pods.
fn shape(result: &Value) -> Value {
    match result {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), shape(value)))
            .collect(),
        Value::Array(entries) => entries.iter().map(shape).collect(),
        Value::String(_) => "text".into(),
        other => other.clone(),
    }
}

/// Asserts that connections from the pod and to it, directly and through the node's port, reach its proxy.
fn assert_redirected(machine: &Machine, pod: &Namespace, address: &str, by_host_port: bool, what: &str) {
    let _proxy = Listener::new(pod, &[at("0.0.0.0", 4140), at("0.0.0.0", 4143)]);
    let host_port = by_host_port.then_some((&machine.host, at(GATEWAY, HOST_PORT), 4143, at(address, 8080)));
    let probes = [
        (pod, at(WORLD, 8080), 4140, at(WORLD, 8080)),
        (&machine.host, at(address, 8080), 4143, at(address, 8080)),
    ];
    for (from, to, proxy_port, original) in probes.into_iter().chain(host_port) {
        let reached = from.run(|| ask_tcp(to));
        let reached = reached.unwrap_or_else(|e| panic!("{what}: to {to}: {e}\n{}", pod.nft_list()));
        let found = (reached.at.port(), reached.original);
        assert_eq!(
            found,
            (proxy_port, Some(original)),
            "{what}: to {to}\n{}",
            pod.nft_list()
        );
    }
}

/// Debian's plugins in the usual order, those that support the version.
fn neighbours(machine: &Machine, version: &str) -> Vec<Value> {
    let mut all = vec![
        machine.bridge(88, true),
        json!({"type": "portmap", "capabilities": {"portMappings": true}}),
        json!({"type": "bandwidth", "ingressRate": 80_000_000, "ingressBurst": 80_000_000,
               "egressRate": 80_000_000, "egressBurst": 80_000_000}),
        json!({"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}}),
    ];
    if version != "0.3.1" {
        all.push(json!({"type": "firewall", "backend": "iptables"}));
    }
    all
}

#[test]
fn chain_result_is_unchanged_at_any_position() {
    let machine = Machine::new(LIBRARIES[0]);
    let mappings =
        json!({"portMappings": [{"hostPort": HOST_PORT, "containerPort": 8080, "protocol": "tcp"}]});
    let capabilities = mappings.to_string();
    let with = [("CAP_ARGS", &*capabilities)];
    let mut chains = 0;
    for version in ["0.3.1", "0.4.0", "1.0.0"] {
        let others = neighbours(&machine, version);
        let pod = Namespace::new();
        // Duplicate address detection would delay each address by a second.
        pod.sysctl("ipv6/conf/default/accept_dad", "0");
        machine.set_network("without", version, &others);
        let expected = shape(&machine.succeed("add", "without", &pod, &with));
        machine.succeed("del", "without", &pod, &with);
        for place in [0, 2, others.len()] {
            let what = format!("version {version}, place {place}");
            let mut plugins = others.clone();
            plugins.insert(place, machine.ours());
            machine.set_network("chain", version, &plugins);
            let result = machine.succeed("add", "chain", &pod, &with);
            assert_eq!(shape(&result), expected, "{what}: {result}");
            assert_eq!(result["cniVersion"], version, "{what}");
            assert_redirected(&machine, &pod, &address(&result), true, &what);
            if version != "0.3.1" {
                // Without the mapping, because the CHECK of Debian's portmap (1.1.1) rejects its own IPv6 rules.
                machine.succeed("check", "chain", &pod, &[]);
                pod.nft("flush chain ip evergreen_cni output");
                let checked = machine.cnitool("check", "chain", &pod, &[]);
                assert!(
                    !checked.succeeded && checked.stderr.contains("output"),
                    "{what}: {checked:?}"
                );
            }
            machine.succeed("del", "chain", &pod, &with);
            assert!(
                !pod.nft_list().contains("evergreen"),
                "{what}: {}",
                pod.nft_list()
            );
            assert_eq!(
                pod.command("ip", &["-br", "link", "show", "type", "veth"]),
                "",
                "{what}"
            );
            // Runtimes repeat DEL, then without a previous result.
            machine.succeed("del", "chain", &pod, &with);
            chains += 1;
        }
    }
    report(&format!(
        "chains: {chains} chains with Debian's plugins under libcni {}",
        LIBRARIES[0].1
    ));
}

#[test]
fn unused_family_rules_are_not_drift() {
    let machine = Machine::new(LIBRARIES[0]);
    let pod = Namespace::new();
    machine.set_network("chain", "1.0.0", &[machine.ours(), machine.bridge(88, false)]);
    machine.succeed("add", "chain", &pod, &[]);
    assert!(
        pod.nft_list().contains("table ip6 evergreen_cni"),
        "the pod's families are not known yet"
    );
    machine.succeed("check", "chain", &pod, &[]);
    pod.nft("flush chain ip evergreen_cni prerouting");
    let checked = machine.cnitool("check", "chain", &pod, &[]);
    assert!(
        !checked.succeeded && checked.stderr.contains("prerouting"),
        "{checked:?}"
    );
    machine.succeed("del", "chain", &pod, &[]);
    assert_eq!(pod.nft_list(), "");
}

#[test]
fn oldest_reference_library_works() {
    let machine = Machine::new(LIBRARIES[1]);
    for version in ["0.3.0", "0.3.1"] {
        let pod = Namespace::new();
        let portmap = json!({"type": "portmap", "snat": true});
        machine.set_network(
            "chain",
            version,
            &[machine.bridge(88, false), machine.ours(), portmap],
        );
        let result = machine.succeed("add", "chain", &pod, &[]);
        assert_redirected(&machine, &pod, &address(&result), false, version);
        machine.succeed("del", "chain", &pod, &[]);
        assert_eq!(pod.nft_list(), "", "{version}");
    }
    report(&format!(
        "chains: 2 chains under libcni {}, the oldest",
        LIBRARIES[1].1
    ));
}

#[test]
fn newest_protocol_works_for_every_command() {
    let machine = Machine::new(LIBRARIES[0]);
    let pod = Namespace::new();
    machine.set_network("alone", "1.1.0", &[machine.ours()]);
    machine.succeed("status", "alone", &pod, &[]);
    let result = machine.succeed("add", "alone", &pod, &[]);
    assert_eq!(result, json!({"cniVersion": "1.1.0"}));
    assert!(pod.nft_list().contains("evergreen_cni"));
    machine.succeed("check", "alone", &pod, &[]);
    // The library treats every attachment it was not given as invalid: it runs DEL, then GC.
    machine.succeed("gc", "alone", &pod, &[]);
    assert_eq!(pod.nft_list(), "");
    machine.succeed("del", "alone", &pod, &[]);
}

#[test]
fn second_interface_leaves_the_firsts_rules() {
    let machine = Machine::new(LIBRARIES[0]);
    machine.set_network("first", "1.0.0", &[machine.bridge(88, false), machine.ours()]);
    machine.set_network("second", "1.0.0", &[machine.bridge(89, false), machine.ours()]);
    let net1 = [("CNI_IFNAME", "net1")];
    let pod = Namespace::new();
    let result = machine.succeed("add", "first", &pod, &[]);
    let rules = pod.nft_list();
    let second = machine.succeed("add", "second", &pod, &net1);
    assert!(address(&second).starts_with("10.89.0."), "{second}");
    assert_eq!(pod.nft_list(), rules, "after ADD of the second interface");
    machine.succeed("check", "second", &pod, &net1);
    machine.succeed("del", "second", &pod, &net1);
    assert_eq!(pod.nft_list(), rules, "after DEL of the second interface");
    machine.succeed("check", "first", &pod, &[]);
    assert_redirected(
        &machine,
        &pod,
        &address(&result),
        false,
        "after a second interface",
    );
    machine.succeed("del", "first", &pod, &[]);
    assert_eq!(pod.nft_list(), "", "after DEL of the first interface");

    // The other order of DEL also leaves no rules.
    machine.succeed("add", "first", &pod, &[]);
    machine.succeed("add", "second", &pod, &net1);
    machine.succeed("del", "first", &pod, &[]);
    machine.succeed("del", "second", &pod, &net1);
    assert_eq!(pod.nft_list(), "");
}

#[test]
fn linkerd_cni_rules_survive_every_command() {
    let machine = Machine::new(LIBRARIES[0]);
    let pod = Namespace::new();
    program_as_linkerd_cni(&pod);
    let theirs = pod.nft_list();
    machine.set_network("chain", "1.0.0", &[machine.bridge(88, false), machine.ours()]);
    let result = machine.succeed("add", "chain", &pod, &[]);
    assert_redirected(
        &machine,
        &pod,
        &address(&result),
        false,
        "beside linkerd-cni's rules",
    );
    machine.succeed("check", "chain", &pod, &[]);
    machine.succeed("del", "chain", &pod, &[]);
    assert!(!pod.nft_list().contains("evergreen"), "{}", pod.nft_list());
    assert_eq!(without_counters(&pod.nft_list()), without_counters(&theirs));
}

/// Returns a ruleset without its packet and byte counters.
fn without_counters(rules: &str) -> String {
    let mut words = rules.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "packets" | "bytes" => drop(words.next()),
            other => kept.push(other),
        }
    }
    kept.join(" ")
}

#[test]
fn runtime_annotations_replace_the_api_server() {
    let mut machine = Machine::new(LIBRARIES[0]);
    machine.set_network("chain", "1.0.0", &[machine.bridge(88, false), machine.ours()]);
    let annotated =
        |annotations: Value| json!({"io.kubernetes.cri.pod-annotations": annotations}).to_string();

    let plain = annotated(json!({"kubernetes.io/config.source": "api"}));
    let pod = Namespace::new();
    machine.succeed("add", "chain", &pod, &[("CAP_ARGS", &plain)]);
    machine.succeed("check", "chain", &pod, &[("CAP_ARGS", &plain)]);
    machine.succeed("del", "chain", &pod, &[("CAP_ARGS", &plain)]);
    assert_eq!(
        machine.node().api.connections(),
        0,
        "an uninjected pod needs no API request"
    );
    assert_eq!(pod.nft_list(), "");

    machine.pause_api();
    let marked = annotated(json!({
        "linkerd.io/created-by": "linkerd/proxy-injector edge-26.8.1",
        "linkerd.io/proxy-version": "edge-26.8.1",
        "config.linkerd.io/skip-outbound-ports": "3306,9990-9999",
    }));
    let pod = Namespace::new();
    let with = [("CAP_ARGS", &*marked)];
    let result = machine.succeed("add", "chain", &pod, &with);
    let rules = pod.nft_list();
    assert!(rules.contains("{ 3306, 9990-9999 }"), "{rules}");
    assert_redirected(&machine, &pod, &address(&result), false, "without the API server");
    machine.succeed("check", "chain", &pod, &with);
    machine.succeed("del", "chain", &pod, &with);
    assert_eq!(pod.nft_list(), "");
}
