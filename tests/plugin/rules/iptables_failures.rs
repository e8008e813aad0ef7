//! The iptables fallback with programs that fail or hang, and with a held xtables lock.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

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
use evergreen_test_support::{
    budget::within,
    netns::{Namespace, without_nf_tables},
    run::CniReply,
};
use serde_json::json;

use crate::{
    credentials::exec::write_script,
    node::{self, Node},
    rules::iptables::{apply, saved, tools},
    rules::ruleset::usual,
};

/// A directory of shell scripts in place of the real programs, removed on drop.
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
        fs::create_dir(&folder).expect("create a temporary folder");
        for (program, script) in scripts {
            write_script(&folder.join(program), script);
        }
        Self(folder)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a UTF-8 path")
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn unsupported_variant_is_skipped() {
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
fn failed_second_family_undoes_the_first() {
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
        let error = failed_apply(&namespace, tools);
        assert!(
            error.starts_with("iptables: cannot write the rules for IPv6: "),
            "{error}"
        );
        assert!(error.contains("ip6tables-legacy-restore"), "{error}");
        assert_eq!(saved(&namespace), before, "{error}");
    }
}

/// Applies the usual ruleset, asserts its failure, and returns the message.
fn failed_apply(namespace: &Namespace, tools: Tools<'_>) -> String {
    let applied = namespace.run(|| iptables::apply(&Ruleset::build(&usual()), tools));
    applied.unwrap_err().to_string()
}

/// Runs a call for a dual-stack pod on a kernel without nf_tables.
fn call(node: &Node, namespace: &Namespace, verb: &str, path: &str) -> CniReply {
    let mut netconf = node.netconf(&["192.0.2.2/24", "fd77::2/64"]);
    netconf["linkerd"] = json!({"ipv6": true});
    let call = node::call(verb, namespace, &netconf).env("PATH", path);
    without_nf_tables(|| call.run()).unwrap_or_else(|e| panic!("{verb}: {e:#}"))
}

#[test]
fn half_written_families_are_found_and_repaired() {
    let node = Node::new();
    let killer = Scripts::new(&[("ip6tables-legacy-save", "kill -9 $PPID")]);
    for verb in ["ADD", "DEL"] {
        let namespace = Namespace::new();
        let before = saved(&namespace);
        let killed = call(&node, &namespace, "ADD", killer.path());
        assert_eq!((killed.exit_code, &*killed.stdout), (None, ""), "{killed:?}");
        let half = saved(&namespace);
        assert!(half.contains("EVERGREEN"), "the first family has rules: {half}");

        let failed = call(&node, &namespace, "CHECK", "").document().unwrap();
        let message = failed["msg"].as_str().unwrap();
        assert_eq!(failed["code"], 104, "{message}");
        assert!(message.contains("of the IPv6 table nat is missing"), "{message}");

        let repaired = call(&node, &namespace, verb, "");
        assert_eq!(repaired.exit_code, Some(0), "{verb}: {repaired:?}");
        if verb == "ADD" {
            let checked = call(&node, &namespace, "CHECK", "");
            assert_eq!(checked.exit_code, Some(0), "{checked:?}\n{}", saved(&namespace));
        } else {
            assert_eq!(saved(&namespace), before);
        }
    }
}

#[test]
fn hanging_program_is_stopped_at_the_deadline() {
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
        let error = failed_apply(&namespace, tools);
        assert!(
            error.contains("iptables-legacy-save did not end within 0.")
                && error.contains("s and was stopped"),
            "{error}"
        );
        assert!(
            started.elapsed() < within(Duration::from_secs(3)),
            "{:?}",
            started.elapsed()
        );
    }
}

#[test]
fn held_xtables_lock_is_awaited_then_named() {
    let lock = File::create("/run/xtables.lock").expect("open the xtables lock");
    lock.lock().expect("take the xtables lock");
    let namespace = Namespace::new();
    let tools = Tools {
        deadline: Deadline::after(Duration::from_secs(3)),
        ..tools(IptablesMode::Legacy)
    };
    let error = failed_apply(&namespace, tools);
    drop(lock);
    assert!(error.contains("xtables lock"), "{error}");
}
