//! The fallback, with the real programs, and with stand-ins for what real ones do only on a bad day.

use crate::{
    nft::{assert_redirected, program_as_linkerd_cni},
    node::Node,
    ruleset::{full, huge, usual},
};
use evergreen_cni::{
    cidr::Family,
    deadline::Deadline,
    intent::Redirect,
    iptables::{self, Tools},
    netconf::IptablesMode,
    nft,
    ruleset::Ruleset,
};
use evergreen_test_support::{
    netns::{Namespace, Wire, without_nf_tables},
    run::CniCall,
};
use serde_json::json;
use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

const MODES: [IptablesMode; 3] = [IptablesMode::Legacy, IptablesMode::Nft, IptablesMode::Plain];

fn tools(mode: IptablesMode) -> Tools<'static> {
    Tools {
        mode,
        path: "",
        deadline: Deadline::after(Duration::from_secs(20)),
    }
}

/// All four variants' view of the table nat, without what changes by itself: dates and counters.
fn saved(namespace: &Namespace) -> String {
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

fn apply(namespace: &Namespace, ruleset: &Ruleset, tools: Tools<'_>) -> Vec<PathBuf> {
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
fn the_rules_are_those_a_reader_expects() {
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
fn every_variant_writes_what_it_finds_again_and_takes_it_away() {
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
fn the_mode_decides_which_programs_are_taken() {
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
fn rules_of_others_stay_and_connections_are_redirected_once() {
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
fn a_family_that_is_not_wanted_any_more_goes_away() {
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
fn a_change_by_others_is_found_and_named() {
    let ruleset = Ruleset::build(&full());
    for (change, difference) in [
        (
            "-F EVERGREEN_CNI_OUT",
            "rule 1 of chain EVERGREEN_CNI_OUT of the IPv4 table nat is missing; wanted",
        ),
        (
            "-D OUTPUT -j EVERGREEN_CNI_OUT",
            "nothing jumps from OUTPUT to chain EVERGREEN_CNI_OUT",
        ),
        (
            "-D EVERGREEN_CNI_OUT 2",
            "rule 2 of chain EVERGREEN_CNI_OUT of the IPv4 table nat is \"-A",
        ),
        (
            "-A EVERGREEN_CNI_IN -j RETURN",
            "rule 6 of chain EVERGREEN_CNI_IN",
        ),
        ("-F", "nothing jumps from PREROUTING"),
    ] {
        let namespace = Namespace::new();
        apply(&namespace, &ruleset, tools(IptablesMode::Legacy));
        let arguments: Vec<&str> = ["-t", "nat"].into_iter().chain(change.split(' ')).collect();
        namespace.command("iptables-legacy", &arguments);
        let found = check(&namespace, &ruleset, tools(IptablesMode::Legacy)).unwrap_err();
        assert!(found.contains(difference), "{change}: {found}");
        // Writing again mends it.
        apply(&namespace, &ruleset, tools(IptablesMode::Legacy));
        check(&namespace, &ruleset, tools(IptablesMode::Legacy)).unwrap();
    }
    let namespace = Namespace::new();
    let found = check(&namespace, &ruleset, tools(IptablesMode::Legacy)).unwrap_err();
    assert_eq!(found, "chain EVERGREEN_CNI_IN of the IPv4 table nat is missing");
}

#[test]
fn what_is_cut_off_is_found_without_knowing_what_is_wanted() {
    let tools = tools(IptablesMode::Legacy);
    let namespace = Namespace::new();
    let alone = || {
        let checked = namespace
            .run(|| iptables::check_alone(tools))
            .unwrap_or_else(|e| panic!("{e}"));
        checked.map_err(|difference| difference.to_string())
    };
    assert_eq!(
        alone().unwrap_err(),
        "there are no rules of ours in any table nat"
    );
    apply(&namespace, &Ruleset::build(&full()), tools);
    alone().unwrap();
    namespace.command("iptables-legacy", &["-t", "nat", "-F", "EVERGREEN_CNI_OUT"]);
    assert_eq!(
        alone().unwrap_err(),
        "chain EVERGREEN_CNI_OUT of the IPv4 table nat is empty"
    );
    namespace.command("iptables-legacy", &["-t", "nat", "-F", "PREROUTING"]);
    let cut_off = "nothing jumps from PREROUTING to chain EVERGREEN_CNI_IN of the IPv4 table nat";
    assert_eq!(alone().unwrap_err(), cut_off);
}

#[test]
fn on_a_kernel_without_nf_tables_the_variant_that_does_not_need_it_is_found() {
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
fn without_nf_tables_the_plugin_s_answers_are_the_same() {
    let (node, wire) = (Node::new(), Wire::new());
    let netconf = json!({
        "cniVersion": "1.0.0", "name": "linkerd-cni", "type": "linkerd-cni", "log_level": "info",
        "kubernetes": {"kubeconfig": node.path("kubeconfig")},
        "linkerd": {"iptables-mode": "nft", "ipv6": true, "inbound-ports-to-ignore": ["4190-4191"]},
        "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "192.0.2.2/24"}, {"address": "fd77::2/64"}]}
    });
    let call = |verb: &str| {
        let call = CniCall::new(env!("CARGO_BIN_EXE_evergreen-cni"), verb, wire.pod.path());
        let reply = without_nf_tables(|| call.pod("shop", "web-0").netconf(&netconf).run());
        reply.unwrap_or_else(|e| panic!("{verb}: {e:#}"))
    };
    let added = call("ADD");
    assert_eq!(added.document().unwrap(), netconf["prevResult"], "{added:?}");
    assert!(
        added.stderr.contains("iptables-legacy-restore"),
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

/// A directory of shell scripts that stand in for the real programs. Gone when dropped.
struct Scripts(PathBuf);

impl Scripts {
    fn new(scripts: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "evergreen-tools-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder of our own");
        for (program, script) in scripts {
            let path = folder.join(program);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file in it");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
        Self(folder)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain name")
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_variant_the_kernel_does_not_know_is_passed_over() {
    let scripts = Scripts::new(&[
        (
            "iptables-nft-save",
            "echo 'Could not fetch rule set generation id' >&2; exit 1",
        ),
        ("iptables-nft-restore", "exit 1"),
    ]);
    let namespace = Namespace::new();
    let ruleset = Ruleset::build(&Redirect {
        families: vec![Family::V4],
        ..usual()
    });
    let tools = Tools {
        path: scripts.path(),
        ..tools(IptablesMode::Nft)
    };
    assert_eq!(
        apply(&namespace, &ruleset, tools),
        [Path::new("/usr/sbin/iptables-restore")]
    );
}

#[test]
fn when_the_second_family_fails_the_first_is_undone() {
    for failure in [
        "echo 'ip6tables-restore: line 4 failed' >&2; exit 1",
        "exec sleep 60",
    ] {
        let scripts = Scripts::new(&[("ip6tables-legacy-restore", failure)]);
        let namespace = Namespace::new();
        let before = saved(&namespace);
        let tools = Tools {
            path: scripts.path(),
            deadline: Deadline::after(Duration::from_secs(2)),
            ..tools(IptablesMode::Legacy)
        };
        let error = namespace
            .run(|| iptables::apply(&Ruleset::build(&usual()), tools))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("iptables: cannot write the rules for IPv6: "),
            "{error}"
        );
        assert!(error.contains("ip6tables-legacy-restore"), "{error}");
        assert_eq!(saved(&namespace), before, "{error}");
    }
}

#[test]
fn a_program_that_hangs_is_stopped_by_the_deadline() {
    for hang in ["exec sleep 60", "exec >&- 2>&-; exec sleep 60", "sleep 60"] {
        let scripts = Scripts::new(&[
            ("iptables-legacy-save", hang),
            ("iptables-legacy-restore", hang),
            ("iptables-save", hang),
            ("iptables-restore", hang),
            ("iptables-nft-save", hang),
            ("iptables-nft-restore", hang),
        ]);
        let namespace = Namespace::new();
        let started = Instant::now();
        let tools = Tools {
            path: scripts.path(),
            deadline: Deadline::after(Duration::from_millis(300)),
            ..tools(IptablesMode::Legacy)
        };
        let error = namespace
            .run(|| iptables::apply(&Ruleset::build(&usual()), tools))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("iptables-legacy-save was not over after 0.3 s and was stopped"),
            "{error}"
        );
        assert!(
            started.elapsed() < Duration::from_secs(3),
            "{:?}",
            started.elapsed()
        );
    }
}

#[test]
fn a_lock_held_by_others_is_waited_for_and_then_named() {
    let lock = File::create("/run/xtables.lock").expect("root may");
    lock.lock().expect("nobody holds it for long");
    let namespace = Namespace::new();
    let tools = Tools {
        deadline: Deadline::after(Duration::from_secs(3)),
        ..tools(IptablesMode::Legacy)
    };
    let error = namespace
        .run(|| iptables::apply(&Ruleset::build(&usual()), tools))
        .unwrap_err()
        .to_string();
    drop(lock);
    assert!(error.contains("xtables lock"), "{error}");
}
