//! The iptables fallback with the node's real programs. Failures are in `iptables_failures.rs`.

use std::{path::PathBuf, time::Duration};

use evergreen_cni::{
    net::cidr::Family,
    policy::intent::Redirect,
    protocol::netconf::IptablesMode,
    rules::{
        iptables::{self, Tools},
        ruleset::Ruleset,
    },
};
use evergreen_kube::deadline::Deadline;
use evergreen_test_support::netns::{Namespace, Wire};

use crate::{
    netns::redirect::{assert_redirected, program_as_linkerd_cni},
    rules::ruleset::{full, huge, usual},
};

const MODES: [IptablesMode; 3] = [IptablesMode::Legacy, IptablesMode::Nft, IptablesMode::Plain];

pub(crate) fn tools(mode: IptablesMode) -> Tools<'static> {
    Tools {
        mode,
        path: "",
        deadline: Deadline::after(Duration::from_secs(20)),
    }
}

/// Returns the nat table as all four variants list it, without dates and counters.
pub(crate) fn saved(namespace: &Namespace) -> String {
    let mut all = String::new();
    for save in [
        "iptables-legacy-save",
        "ip6tables-legacy-save",
        "iptables-nft-save",
        "ip6tables-nft-save",
    ] {
        let printed = namespace.command(save, &["-t", "nat"]);
        for line in printed.lines().filter(|line| !line.starts_with('#')) {
            all.push_str(line.split(" [").next().unwrap_or(line));
            all.push('\n');
        }
    }
    all
}

pub(crate) fn apply(namespace: &Namespace, ruleset: &Ruleset, tools: Tools<'_>) -> Vec<PathBuf> {
    namespace
        .run(|| iptables::apply(ruleset, tools))
        .unwrap_or_else(|e| panic!("{e}\n{}", saved(namespace)))
}

fn check(namespace: &Namespace, ruleset: &Ruleset, tools: Tools<'_>) -> Result<(), String> {
    let checked = namespace.run(|| iptables::check(ruleset, tools));
    checked
        .unwrap_or_else(|e| panic!("{e}"))
        .map_err(|difference| difference.to_string())
}

#[test]
fn saved_rules_are_as_expected() {
    let namespace = Namespace::new();
    let ruleset = Ruleset::build(&Redirect {
        families: vec![Family::V4],
        ..full()
    });
    apply(&namespace, &ruleset, tools(IptablesMode::Legacy));
    let saved = namespace.command("iptables-legacy-save", &["-t", "nat"]);
    let ours: Vec<&str> = saved.lines().filter(|line| line.contains("EVERGREEN")).collect();
    let expected = "\
:EVERGREEN_CNI_IN - [0:0]
:EVERGREEN_CNI_OUT - [0:0]
-A PREROUTING -j EVERGREEN_CNI_IN
-A OUTPUT -j EVERGREEN_CNI_OUT
-A EVERGREEN_CNI_IN -p tcp -m multiport --dports 1,22,4190:4191,6000,7000,65535 -j RETURN
-A EVERGREEN_CNI_IN -s 10.0.0.0/8 -j RETURN
-A EVERGREEN_CNI_IN -s 172.16.0.0/23 -j RETURN
-A EVERGREEN_CNI_IN -s 192.168.0.7/32 -j RETURN
-A EVERGREEN_CNI_IN -p tcp -m multiport --dports 80,8080:8090,65000:65535 -j REDIRECT --to-ports 4143
-A EVERGREEN_CNI_OUT -m owner --uid-owner 2102 -j RETURN
-A EVERGREEN_CNI_OUT -m owner --gid-owner 2103 -j RETURN
-A EVERGREEN_CNI_OUT -o lo -j RETURN
-A EVERGREEN_CNI_OUT -p tcp -m multiport --dports 1:5,443,3306,5432,6379,11211,65535 -j RETURN
-A EVERGREEN_CNI_OUT -p tcp -j REDIRECT --to-ports 4140";
    assert_eq!(ours.join("\n"), expected);
}

#[test]
fn every_variant_writes_checks_and_removes_rules() {
    for mode in MODES {
        for redirect in [usual(), full()] {
            let (namespace, ruleset) = (Namespace::new(), Ruleset::build(&redirect));
            let before = saved(&namespace);
            apply(&namespace, &ruleset, tools(mode));
            check(&namespace, &ruleset, tools(mode)).unwrap_or_else(|e| panic!("{mode:?}: {e}"));
            let once = saved(&namespace);
            assert_ne!(once, before);
            apply(&namespace, &ruleset, tools(mode));
            assert_eq!(saved(&namespace), once, "{mode:?}: a second time");
            assert!(namespace.run(|| iptables::remove(tools(mode))).unwrap());
            assert_eq!(saved(&namespace), before, "{mode:?}: removed");
            assert!(!namespace.run(|| iptables::remove(tools(mode))).unwrap());
        }
    }
}

#[test]
fn mode_selects_the_programs() {
    let namespace = Namespace::new();
    let ruleset = Ruleset::build(&usual());
    for (mode, programs) in [
        (
            IptablesMode::Legacy,
            [
                "/usr/sbin/iptables-legacy-restore",
                "/usr/sbin/ip6tables-legacy-restore",
            ],
        ),
        (
            IptablesMode::Nft,
            [
                "/usr/sbin/iptables-nft-restore",
                "/usr/sbin/ip6tables-nft-restore",
            ],
        ),
        (
            IptablesMode::Plain,
            ["/usr/sbin/iptables-restore", "/usr/sbin/ip6tables-restore"],
        ),
    ] {
        assert_eq!(
            apply(&namespace, &ruleset, tools(mode)),
            programs.map(PathBuf::from)
        );
    }
}

#[test]
fn huge_lists_are_written() {
    let (namespace, ruleset) = (Namespace::new(), Ruleset::build(&huge()));
    apply(&namespace, &ruleset, tools(IptablesMode::Legacy));
    check(&namespace, &ruleset, tools(IptablesMode::Legacy)).unwrap();
}

#[test]
fn foreign_rules_stay_and_redirect_once() {
    for mode in MODES {
        let wire = Wire::new();
        apply(&wire.pod, &Ruleset::build(&usual()), tools(mode));
        assert_redirected(&wire);

        let wire = Wire::new();
        program_as_linkerd_cni(&wire.pod);
        let before = saved(&wire.pod);
        apply(&wire.pod, &Ruleset::build(&usual()), tools(mode));
        assert_redirected(&wire);
        assert!(wire.pod.run(|| iptables::remove(tools(mode))).unwrap());
        assert_eq!(saved(&wire.pod), before);
    }
}

#[test]
fn dropped_family_is_removed() {
    let namespace = Namespace::new();
    apply(&namespace, &Ruleset::build(&usual()), tools(IptablesMode::Legacy));
    let one = Ruleset::build(&Redirect {
        families: vec![Family::V4],
        ..usual()
    });
    apply(&namespace, &one, tools(IptablesMode::Legacy));
    let saved = namespace.command("ip6tables-legacy-save", &["-t", "nat"]);
    assert!(!saved.contains("EVERGREEN"), "{saved}");
    check(&namespace, &one, tools(IptablesMode::Legacy)).unwrap();
}

#[test]
fn foreign_change_is_found_and_named() {
    let ruleset = Ruleset::build(&full());
    for (change, difference) in [
        (
            "-F EVERGREEN_CNI_OUT",
            "rule 1 of chain EVERGREEN_CNI_OUT of the IPv4 table nat is missing; wanted",
        ),
        (
            "-D OUTPUT -j EVERGREEN_CNI_OUT",
            "no rule jumps from OUTPUT to chain EVERGREEN_CNI_OUT",
        ),
        (
            "-D EVERGREEN_CNI_OUT 2",
            "rule 2 of chain EVERGREEN_CNI_OUT of the IPv4 table nat is \"-A",
        ),
        (
            "-A EVERGREEN_CNI_IN -j RETURN",
            "rule 6 of chain EVERGREEN_CNI_IN",
        ),
        ("-F", "no rule jumps from PREROUTING"),
    ] {
        let namespace = Namespace::new();
        apply(&namespace, &ruleset, tools(IptablesMode::Legacy));
        let arguments: Vec<&str> = ["-t", "nat"].into_iter().chain(change.split(' ')).collect();
        namespace.command("iptables-legacy", &arguments);
        let found = check(&namespace, &ruleset, tools(IptablesMode::Legacy)).unwrap_err();
        assert!(found.contains(difference), "{change}: {found}");
        // A second apply restores it.
        apply(&namespace, &ruleset, tools(IptablesMode::Legacy));
        check(&namespace, &ruleset, tools(IptablesMode::Legacy)).unwrap();
    }
    let namespace = Namespace::new();
    let found = check(&namespace, &ruleset, tools(IptablesMode::Legacy)).unwrap_err();
    assert_eq!(found, "chain EVERGREEN_CNI_IN of the IPv4 table nat is missing");
}

#[test]
fn disconnected_chain_is_found_without_the_ruleset() {
    let tools = tools(IptablesMode::Legacy);
    let namespace = Namespace::new();
    let alone = || {
        let checked = namespace
            .run(|| iptables::check_complete(tools))
            .unwrap_or_else(|e| panic!("{e}"));
        checked.map_err(|difference| difference.to_string())
    };
    assert_eq!(alone().unwrap_err(), "no table nat has rules of the plugin");
    apply(&namespace, &Ruleset::build(&full()), tools);
    alone().unwrap();
    namespace.command("iptables-legacy", &["-t", "nat", "-F", "EVERGREEN_CNI_OUT"]);
    assert_eq!(
        alone().unwrap_err(),
        "chain EVERGREEN_CNI_OUT of the IPv4 table nat is empty"
    );
    namespace.command("iptables-legacy", &["-t", "nat", "-F", "PREROUTING"]);
    let cut_off = "no rule jumps from PREROUTING to chain EVERGREEN_CNI_IN of the IPv4 table nat";
    assert_eq!(alone().unwrap_err(), cut_off);
}
