//! The installer's cost: idle, in a burst of events, and beside a neighbour that undoes its changes.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use evergreen_test_support::budget::within;

use crate::{
    cluster::{Cluster, get},
    node::{CALICO, Node},
};

/// Parses the number in a line such as `VmRSS:     1234 kB`.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    line.trim_start_matches(':')
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// Returns how often the installer's threads have woken up so far.
fn wake_ups(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let text = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).unwrap();
    tasks
        .map(|task| number(&text(task.unwrap()), "voluntary_ctxt_switches"))
        .sum()
}

fn resident_kib(pid: i32) -> u64 {
    number(
        &fs::read_to_string(format!("/proc/{pid}/status")).unwrap(),
        "VmRSS",
    )
}

#[test]
fn idle_installer_wakes_rarely_and_stays_small() {
    let cluster = Cluster::new();
    let mut installer = cluster.start();
    let pid = installer.pid();
    installer.until(&cluster.node, "the token is on the node", || {
        cluster.has_node_token()
    });
    // Start-up work is over when a second passes without a wake-up.
    installer.until(&cluster.node, "the installer is idle", || {
        let before = wake_ups(pid);
        thread::sleep(Duration::from_secs(1));
        wake_ups(pid) == before
    });
    let before = wake_ups(pid);
    thread::sleep(Duration::from_secs(10));
    let woken = wake_ups(pid) - before;
    assert!(woken < 10, "{woken} wake-ups in ten seconds\n{}", installer.log());
    let resident = resident_kib(installer.pid());
    // A debug build has several times the pages of a release build, which `scripts/bench` measures.
    let limit = if cfg!(debug_assertions) { 16 } else { 6 };
    assert!(resident < limit << 10, "{resident} KiB resident");
}

#[test]
fn ten_thousand_events_cause_few_passes() {
    let cluster = Cluster::new();
    let mut installer = cluster.start();
    let passes = || {
        number(
            &get(&cluster, "/metrics").replace(' ', ": "),
            "evergreen_install_turns_total",
        )
    };
    let (passes_before, resident_before) = (passes(), resident_kib(installer.pid()));
    let start = Instant::now();
    for i in 0..5_000 {
        let file = cluster.node.net(&format!("noise-{}", i % 7));
        fs::write(&file, "x").unwrap();
        fs::remove_file(&file).unwrap();
    }
    fs::write(cluster.node.net("10-calico.conflist"), CALICO).unwrap();
    installer.until(&cluster.node, "the entry is restored", || {
        cluster.node.has_entry("10-calico.conflist")
    });
    let most = 10 + start.elapsed().as_millis() / 40;
    let made = passes() - passes_before;
    assert!(u128::from(made) <= most, "{made} passes in {:?}", start.elapsed());
    let grown = resident_kib(installer.pid()).saturating_sub(resident_before);
    assert!(grown < 1024, "grown by {grown} KiB");
}

/// The outcome of ten seconds beside a neighbour that removes our entry.
struct Fight {
    /// How often our entry was found, including the first time.
    undone: usize,
    /// The time from the neighbour's last write until our entry is present.
    took: Duration,
    log: String,
}

/// Rewrites the network for ten seconds: at every interval, or only when our entry is present.
fn fight(interval: Duration, always: bool) -> Fight {
    let node = Node::new().with_network("05-other.conflist", CALICO);
    let mut installer = node.start_and_wait_for("05-other.conflist");
    let (path, mine) = (node.net("05-other.conflist"), node.net("05-other.conflist.mine"));
    let (start, mut undone) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(10) {
        let present = fs::read_to_string(&path).unwrap().contains("linkerd-cni");
        undone += usize::from(present);
        if present || always {
            fs::write(&mine, CALICO).unwrap();
            fs::rename(&mine, &path).unwrap();
        }
        thread::sleep(interval);
    }
    let took = installer.until(&node, "the entry is present", || {
        node.has_entry("05-other.conflist")
    });
    Fight {
        undone,
        took,
        log: installer.log(),
    }
}

/// Tolerance for a busy machine.
const BUSY: Duration = Duration::from_millis(500);

#[test]
fn neighbour_undoing_every_write_meets_exponential_backoff() {
    let Fight { undone, took, log } = fight(Duration::from_millis(2), false);
    // Written at the start and at 0, 1, 3 and 7 s; the next answer is due at 15 s.
    assert!(
        (3..=5).contains(&undone),
        "{undone} rewrites in ten seconds\n{log}"
    );
    assert!(took < Duration::from_secs(8) + within(BUSY), "{took:?}\n{log}");
    let hints = log.matches("cni.exclusive=false").count();
    assert_eq!(hints, 1, "the likely cause is logged once\n{log}");
}

#[test]
fn neighbour_writing_ten_times_a_second_meets_exponential_backoff() {
    let Fight { undone, took, log } = fight(Duration::from_millis(100), true);
    assert!(undone <= 5, "{undone} rewrites in ten seconds\n{log}");
    assert!(took < Duration::from_secs(8) + within(BUSY), "{took:?}\n{log}");
}

#[test]
fn network_renamed_by_cilium_is_left_and_reported() {
    let node = Node::new()
        .with_network("05-cilium.conflist", CALICO)
        .with_network("10-a.conflist.cilium_bak", CALICO);
    let log = node.succeed(&["once"]);
    assert!(
        log.contains("10-a.conflist.cilium_bak") && log.contains("cni.exclusive=false"),
        "{log}"
    );
    assert_eq!(
        fs::read_to_string(node.net("10-a.conflist.cilium_bak")).unwrap(),
        CALICO
    );
}
