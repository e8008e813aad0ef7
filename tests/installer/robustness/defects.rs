//! Defects that other installers have had and no other test covers. strace shows the system calls.

use std::{fs, path::PathBuf, process::Command, thread, time::Duration};

use evergreen_test_support::strace::straced;

use crate::node::{CALICO, Node};

const CALLS: &str =
    "trace=openat,open,creat,rename,renameat,renameat2,unlink,unlinkat,fsync,fchmod,chmod,ftruncate,truncate";

/// Returns the file-changing calls of one run in order, with paths below the node for descriptors.
fn calls(node: &Node, arguments: &[&str]) -> Vec<String> {
    let trace = node.path("trace");
    let output = straced(&trace, &["-y", "-e", CALLS], &node.command(arguments))
        .output()
        .expect("strace is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let host = node.path("host").to_str().unwrap().to_owned();
    let text = fs::read_to_string(&trace).unwrap();
    // The first line is the installer's; the plugin it runs has another process ID.
    let pid = text.split(' ').next().unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix(pid))
        .map(str::trim_start)
        .filter(|l| l.contains(&host))
        .map(|l| l.replace(&host, ""))
        .collect()
}

/// Returns the index of the first call that contains all of these words.
fn place(calls: &[String], words: &[&str]) -> usize {
    let found = calls.iter().position(|c| words.iter().all(|w| c.contains(w)));
    found.unwrap_or_else(|| panic!("no call with {words:?} in\n{}", calls.join("\n")))
}

#[test]
fn removal_order_is_conflist_first_binary_last() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    let calls = calls(&node, &["uninstall"]);
    let conflist = place(&calls, &["rename", "\"/etc/cni/net.d/10-calico.conflist\""]);
    let kubeconfig = place(&calls, &["unlink", "ZZZ-linkerd-cni-kubeconfig"]);
    let token = place(&calls, &["unlink", "/token\""]);
    let binary = place(&calls, &["unlink", "/opt/cni/bin/linkerd-cni"]);
    assert!(
        conflist < kubeconfig && kubeconfig < token && token < binary,
        "{}",
        calls.join("\n")
    );
}

#[test]
fn install_order_is_binary_first_conflist_last() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let calls = calls(&node, &["once"]);
    let binary = place(&calls, &["rename", "\"/opt/cni/bin/linkerd-cni\""]);
    let token = place(&calls, &["rename", "/token\""]);
    let kubeconfig = place(
        &calls,
        &["rename", "\"/etc/cni/net.d/ZZZ-linkerd-cni-kubeconfig\""],
    );
    let conflist = place(&calls, &["rename", "\"/etc/cni/net.d/10-calico.conflist\""]);
    assert!(
        binary < token && token < kubeconfig && kubeconfig < conflist,
        "{}",
        calls.join("\n")
    );
}

#[test]
fn files_are_synced_and_renamed_into_place() {
    for (network, content) in [
        ("10-calico.conflist", CALICO),
        ("10-x.conf", r#"{"name":"x","type":"bridge"}"#),
    ] {
        let node = Node::new().with_network(network, content);
        for command in ["once", "uninstall"] {
            let calls = calls(&node, &[command]);
            for call in calls
                .iter()
                .filter(|c| c.starts_with("open") && !c.contains("O_RDONLY"))
            {
                assert!(
                    call.contains("O_EXCL") && call.contains(".evergreen-tmp\""),
                    "{call}"
                );
                // The mode is widened only after the whole file is written.
                assert!(call.contains(", 0600)"), "{call}");
            }
            assert!(!calls.iter().any(|c| c.contains("trunc")), "{}", calls.join("\n"));
            for (i, call) in calls.iter().enumerate().filter(|(_, c)| c.starts_with("rename")) {
                let paths: Vec<&str> = call.split('"').collect();
                let (temporary, target) = (paths[1], PathBuf::from(paths[3]));
                let before = place(&calls[..i], &["fsync(", &format!("<{temporary}>")]);
                let dir = format!("<{}>", target.parent().unwrap().display());
                let next = &calls[i + 1..calls.len().min(i + 3)];
                let synced = next.iter().any(|c| c.starts_with("fsync(") && c.contains(&dir));
                assert!(synced, "{call}\n{}", next.join("\n"));
                assert!(before < i);
            }
        }
    }
}

#[test]
fn secrets_are_created_with_mode_0600() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let calls = calls(&node, &["once"]);
    for secret in [".token.", ".ca.crt.", ".ZZZ-linkerd-cni-kubeconfig."] {
        let opened = place(&calls, &["open", secret, "O_CREAT"]);
        assert!(calls[opened].contains(", 0600)"), "{}", calls[opened]);
        let modes = calls
            .iter()
            .filter(|c| c.starts_with("fchmod") && c.contains(secret));
        assert!(
            modes.clone().count() == 1 && modes.clone().all(|c| c.contains(", 0600)")),
            "{}",
            calls.join("\n")
        );
    }
}

#[test]
fn log_has_one_line_per_change() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let log = node.succeed(&["once"]);
    for line in log.lines() {
        assert!(
            line.contains(" level=info component=installer msg=\"file changed\"")
                || line.contains(" msg=\"CA bundle changed\" action=added "),
            "{line}"
        );
    }
    assert!(node.succeed(&["once", "--log-level", "debug"]).lines().count() < 10);
}

#[test]
fn removal_beside_busy_neighbour_leaves_nothing() {
    for round in 0..5 {
        let node = Node::new()
            .with_network("10-calico.conflist", CALICO)
            .with("EVERGREEN_ON_TERM", "remove");
        let installer = node.start_and_wait_for("10-calico.conflist");
        let path = node.net("10-calico.conflist");
        let (status, log) = thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    fs::write(&path, CALICO).unwrap();
                    thread::sleep(Duration::from_millis(3));
                }
            });
            thread::sleep(Duration::from_millis(7 * round));
            installer.end()
        });
        assert!(status.success(), "{log}");
        assert_eq!(fs::read_to_string(&path).unwrap(), CALICO, "{log}");
        assert!(!node.bin("linkerd-cni").exists() && !node.net("linkerd-cni.evergreen").exists());
    }
}

#[test]
fn only_own_leftovers_are_removed() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    let right = node.snapshot();
    let leftovers = [
        node.net(".10-calico.conflist.18ec-1-0.evergreen-tmp"),
        node.net("linkerd-cni.evergreen/.token.18ec-1-0.evergreen-tmp"),
        node.bin(".linkerd-cni.18ec-1-0.evergreen-tmp"),
    ];
    for leftover in &leftovers {
        fs::write(leftover, "half").unwrap();
    }
    fs::write(node.net("10-calico.conflist.tmp"), "a neighbour's").unwrap();
    node.succeed(&["once"]);
    assert!(leftovers.iter().all(|l| !l.exists()));
    fs::remove_file(node.net("10-calico.conflist.tmp")).unwrap();
    assert_eq!(node.snapshot(), right);
    for leftover in &leftovers {
        fs::write(leftover, "half").unwrap();
    }
    node.succeed(&["uninstall"]);
    assert!(leftovers.iter().all(|l| !l.exists()), "{}", node.show());
}

#[test]
fn two_invalid_files_do_not_block_valid_one() {
    let node = Node::new()
        .with_network("10-a.conflist", "{\"foo\":1}")
        .with_network("15-b.conflist", "")
        .with_network("20-calico.conflist", CALICO)
        .with("EVERGREEN_ON_TERM", "remove");
    let installer = node.start_and_wait_for("20-calico.conflist");
    let (status, log) = installer.end();
    assert!(status.success(), "{log}");
    assert_eq!(
        fs::read_to_string(node.net("20-calico.conflist")).unwrap(),
        CALICO
    );
}

/// Runs the installer in a mount namespace in which one of the node's directories has these mount options.
fn mounted(node: &Node, dir: &str, how: &str) -> std::process::Output {
    let installer = node.command(&["once"]);
    let directory = node.path(dir);
    let script = format!(
        "mount --bind {0} {0} && mount -o remount,bind,{how} {0} && exec {1} once",
        directory.display(),
        installer.get_program().to_str().unwrap()
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    unshare.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    unshare
        .envs(installer.get_envs().filter_map(|(n, v)| Some((n, v?))))
        .output()
        .unwrap()
}

#[test]
fn unwritable_directory_is_named_with_cure() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let output = mounted(&node, "host/opt/cni/bin", "ro");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{log}");
    for words in [
        "/opt/cni/bin/linkerd-cni",
        "Read-only file system",
        "mount it read-write",
    ] {
        assert!(log.contains(words), "no {words:?} in\n{log}");
    }
    // Credentials are still written; the conflist must not name a missing plugin.
    assert!(node.net("ZZZ-linkerd-cni-kubeconfig").exists(), "{}", node.show());
    assert_eq!(
        fs::read_to_string(node.net("10-calico.conflist")).unwrap(),
        CALICO
    );

    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let output = mounted(&node, "host/etc/cni/net.d", "ro");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(
        log.contains("/etc/cni/net.d") && log.contains("mount it read-write"),
        "{log}"
    );
    assert!(node.bin("linkerd-cni").exists(), "{}", node.show());
}

#[test]
fn noexec_directory_is_no_obstacle() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let output = mounted(&node, "host/opt/cni/bin", "noexec");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && node.has_entry("10-calico.conflist"),
        "{log}"
    );
}

#[test]
fn lasting_problem_is_logged_once_with_path() {
    let node = || {
        Node::new()
            .with_network("10-calico.conflist", CALICO)
            .with("EVERGREEN_WAIT_SECONDS", "3")
    };
    let missing = |dir: &str| {
        let node = node();
        fs::remove_dir_all(node.path(dir)).unwrap();
        node.run(&["once"])
    };
    for (output, dir) in [
        (missing("host/opt/cni/bin"), "/opt/cni/bin"),
        (missing("host/etc/cni/net.d"), "/etc/cni/net.d"),
        (mounted(&node(), "host/opt/cni/bin", "ro"), "/opt/cni/bin"),
        (mounted(&node(), "host/etc/cni/net.d", "ro"), "/etc/cni/net.d"),
    ] {
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{log}");
        // The last line repeats the reasons for the exit code.
        let said = log.lines().filter(|l| !l.contains("msg=failed"));
        let (mut troubles, all) = (Vec::new(), said.filter(|l| l.contains("operation failed")));
        for line in all {
            // Compared without paths and errors, which may differ.
            let (_, words) = line.split_once(" msg=").unwrap();
            let words = words.split(": ").take(2).collect::<Vec<_>>().join(": ");
            assert!(!line.contains("recovered"), "{line}\nin\n{log}");
            assert!(!troubles.contains(&words), "twice: {words}\nin\n{log}");
            assert!(line.contains(dir) && !line.contains("evergreen-tmp"), "{line}");
            troubles.push(words);
        }
        assert!(!troubles.is_empty(), "{log}");
    }
}
