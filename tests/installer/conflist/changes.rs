//! A running installer while other programs change the node.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::PermissionsExt,
    thread,
    time::{Duration, Instant},
};

use evergreen_test_support::budget::within;

use crate::node::{CA, CALICO, Node, mode};

/// Asserts that the median is under 100 ms; single values may be late on a busy machine.
fn assert_in_time(mut took: Vec<Duration>) {
    took.sort();
    assert!(
        took[took.len() / 2] < within(Duration::from_millis(100)),
        "{took:?}"
    );
}

#[test]
fn rotated_token_reaches_node_within_100_ms() {
    let mut node = Node::new().with_network("10-calico.conflist", CALICO);
    let mut installer = node.start_and_wait_for("10-calico.conflist");
    let token = node.net("linkerd-cni.evergreen/token");
    let mut took = Vec::new();
    for n in 2..13 {
        let wanted = format!("token-{n}");
        node.rotate(&wanted, CA);
        let there = || fs::read_to_string(&token).unwrap() == wanted;
        took.push(installer.until(&node, "the new token is on the node", there));
        assert_eq!(mode(&token), 0o600);
    }
    assert_in_time(took);
}

#[test]
fn changed_ca_reaches_node_within_100_ms() {
    let mut node = Node::new().with_network("10-calico.conflist", CALICO);
    let mut installer = node.start_and_wait_for("10-calico.conflist");
    let ca = node.net("linkerd-cni.evergreen/ca.crt");
    let mut took = Vec::new();
    for n in 2..6 {
        let bundle = CA.repeat(n);
        node.rotate("token-1", &bundle);
        let there = || fs::read_to_string(&ca).unwrap() == bundle;
        took.push(installer.until(&node, "the new CA is on the node", there));
    }
    assert_in_time(took);
}

#[test]
fn rewritten_conflist_gets_entry_within_100_ms() {
    let mut took = Vec::new();
    for _ in 0..5 {
        // A new installer each time: only the first rewrite within a minute is answered without delay.
        let node = Node::new().with_network("10-calico.conflist", CALICO);
        let mut installer = node.start_and_wait_for("10-calico.conflist");
        fs::write(node.net("10-calico.conflist"), CALICO).unwrap();
        took.push(installer.until(&node, "the entry is restored", || {
            node.has_entry("10-calico.conflist")
        }));
    }
    assert_in_time(took);
}

#[test]
fn conflist_moved_into_place_gets_entry() {
    let node = Node::new();
    let mut installer = node.start();
    for (from, to) in [
        ("host/10-aws", "10-aws.conflist"),
        ("host/etc/cni/net.d/10-aws.conflist.tmp", "10-aws.conflist"),
    ] {
        fs::write(node.path(from), CALICO).unwrap();
        fs::rename(node.path(from), node.net(to)).unwrap();
        installer.until(&node, "the entry is present", || node.has_entry(to));
    }
}

#[test]
fn empty_directory_gets_no_network() {
    let node = Node::new();
    let mut installer = node.start();
    installer.until(&node, "the plugin is installed", || {
        node.bin("linkerd-cni").exists()
    });
    installer.until(&node, "the log names what is missing", || {
        node.logs_contain("no network yet")
    });
    let loaded = |name: &str| [".conf", ".conflist", ".json"].iter().any(|e| name.ends_with(e));
    let names = fs::read_dir(node.net(""))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|n| loaded(n)).count(), 0, "{}", node.show());
    fs::write(node.net("10-calico.conflist"), CALICO).unwrap();
    installer.until(&node, "the entry is present", || {
        node.has_entry("10-calico.conflist")
    });
}

#[test]
fn conflist_written_in_steps_is_awaited() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let mut installer = node.start_and_wait_for("10-calico.conflist");
    for _ in 0..3 {
        let mut file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(node.net("10-calico.conflist"))
            .unwrap();
        let (first, second) = CALICO.split_at(40);
        file.write_all(first.as_bytes()).unwrap();
        // Longer than the debounce interval, so that the installer reads the half-written file.
        thread::sleep(Duration::from_millis(100));
        file.write_all(second.as_bytes()).unwrap();
        drop(file);
        installer.until(&node, "the entry is restored", || {
            node.has_entry("10-calico.conflist")
        });
    }
    assert!(
        !installer.log().contains("operation failed"),
        "{}",
        installer.log()
    );
}

#[test]
fn deleted_or_changed_files_are_restored() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let mut installer = node.start_and_wait_for("10-calico.conflist");
    let right = node.snapshot();
    let files = [
        node.bin("linkerd-cni"),
        node.net("ZZZ-linkerd-cni-kubeconfig"),
        node.net("linkerd-cni.evergreen/token"),
        node.net("linkerd-cni.evergreen/ca.crt"),
    ];
    for file in &files {
        fs::remove_file(file).unwrap();
        installer.until(&node, "the deleted file is restored", || node.snapshot() == right);
        fs::write(file, "something else").unwrap();
        installer.until(&node, "the changed file is restored", || node.snapshot() == right);
        OpenOptions::new().write(true).truncate(true).open(file).unwrap();
        installer.until(&node, "the truncated file is restored", || {
            node.snapshot() == right
        });
        fs::set_permissions(file, fs::Permissions::from_mode(0o777)).unwrap();
        installer.until(&node, "the file mode is restored", || node.snapshot() == right);
    }
    fs::set_permissions(
        node.net("linkerd-cni.evergreen"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    installer.until(&node, "the directory mode is restored", || {
        node.snapshot() == right
    });
    // Moved in one step: removed one by one, files would be restored while others disappear.
    fs::rename(node.net("linkerd-cni.evergreen"), node.path("gone")).unwrap();
    installer.until(&node, "the deleted directory is restored", || {
        node.snapshot() == right
    });
}

#[test]
fn empty_token_does_not_replace_old_one() {
    let mut node = Node::new().with_network("10-calico.conflist", CALICO);
    let mut installer = node.start_and_wait_for("10-calico.conflist");
    node.rotate("", CA);
    installer.until(&node, "the log reports it", || {
        node.logs_contain("the token is empty")
    });
    let token = node.net("linkerd-cni.evergreen/token");
    assert_eq!(fs::read_to_string(&token).unwrap(), "token-1");
    node.rotate("token-3", CA);
    installer.until(&node, "the valid token is on the node", || {
        fs::read_to_string(&token).unwrap() == "token-3"
    });
}

#[test]
fn late_or_replaced_directory_is_used() {
    let node = Node::new();
    fs::remove_dir_all(node.net("")).unwrap();
    let mut installer = node.start();
    installer.until(&node, "the log names the missing directory", || {
        node.logs_contain("/etc/cni/net.d")
    });
    fs::create_dir(node.net("")).unwrap();
    fs::write(node.net("10-calico.conflist"), CALICO).unwrap();
    installer.until(&node, "the entry is present", || {
        node.has_entry("10-calico.conflist")
    });
    fs::rename(node.net(""), node.path("gone")).unwrap();
    fs::create_dir(node.net("")).unwrap();
    fs::write(node.net("10-calico.conflist"), CALICO).unwrap();
    installer.until(&node, "the entry is present again", || {
        node.has_entry("10-calico.conflist")
    });
}

#[test]
fn second_run_writes_nothing() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    let stamps = node.stamps();
    let log = node.succeed(&["once"]);
    assert_eq!(node.stamps(), stamps);
    assert_eq!(log, "", "a turn that changes nothing says nothing");
    // A running installer adds its record and writes nothing else, however often it wakes.
    let mut installer = node.start();
    let record = node.net("linkerd-cni.evergreen/owner-1");
    installer.until(&node, "the record exists", || record.exists());
    let files_but_record = |node: &Node| {
        let mut stamps = node.stamps();
        stamps.retain(|path, _| *path != record && path.is_file());
        stamps
    };
    let before = files_but_record(&node);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        fs::write(node.path("serviceaccount/unrelated"), "x").unwrap();
    }
    assert_eq!(files_but_record(&node), before, "{}", installer.log());
    assert!(!installer.log().contains("file changed"), "{}", installer.log());
}
