//! A neighbour that writes its conflist between the installer's read and its change: nothing is lost. `strace` delays
//! the installer when the new file is written but not yet renamed into place.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use evergreen_test_support::{budget::within, strace::straced};

use crate::node::{CALICO, Node, PATIENCE};

/// The delay: long enough to write a file on a busy machine.
const HELD: Duration = Duration::from_secs(2);

/// An installer delayed before its first fsync: it has read everything and changed nothing.
struct Held(Child);

impl Held {
    fn start(node: &Node, command: &str) -> Self {
        let inject = format!("inject=fsync:delay_enter={}:when=1", HELD.as_micros());
        let options = ["-e", "trace=fsync", "-e", &inject];
        let held = straced(Path::new("/dev/null"), &options, &node.command(&[command]))
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace is installed");
        let held = Self(held);
        let start = Instant::now();
        while !held.is_in(libc::SYS_fsync) {
            assert!(
                start.elapsed() < within(PATIENCE),
                "the installer reaches no fsync\n{}",
                node.show()
            );
            // Polled, because the kernel sends no event when another process enters a system call.
            thread::sleep(Duration::from_millis(2));
        }
        held
    }

    /// Returns whether the traced process is in the system call of this number.
    fn is_in(&self, number: i64) -> bool {
        let strace = self.0.id();
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let children = read(&format!("/proc/{strace}/task/{strace}/children"));
        children
            .split_whitespace()
            .any(|pid| read(&format!("/proc/{pid}/syscall")).split(' ').next() == Some(&number.to_string()))
    }

    fn ended(self) -> String {
        let output = self.0.wait_with_output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}\n{log}", output.status);
        log
    }
}

/// Changes the conflist as a neighbour does that keeps the entry it found there.
fn change(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let changed = text.replace("k8s-pod-network", "changed-meanwhile");
    assert!(text != changed, "{text}");
    let beside = path.with_extension("theirs");
    fs::write(&beside, changed).unwrap();
    fs::rename(&beside, path).unwrap();
}

const SINGLE: &str = r#"{"cniVersion":"0.3.1","name":"k8s-pod-network","type":"calico"}"#;

#[test]
fn write_during_removal_is_kept() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    let path = node.net("10-calico.conflist");
    let held = Held::start(&node, "uninstall");
    change(&path);
    let log = held.ended();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        CALICO.replace("k8s-pod-network", "changed-meanwhile"),
        "{log}"
    );
    assert!(!node.bin("linkerd-cni").exists(), "{log}\n{}", node.show());
}

#[test]
fn write_during_insertion_is_kept() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    let path = node.net("10-calico.conflist");
    fs::write(&path, CALICO).unwrap();
    let node = node.with("EVERGREEN_WAIT_SECONDS", "10");
    let held = Held::start(&node, "once");
    change(&path);
    let log = held.ended();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        node.has_entry("10-calico.conflist") && text.contains("changed-meanwhile"),
        "{log}{text}"
    );
}

#[test]
fn new_list_during_restore_replaces_single_file() {
    let node = Node::new().with_network("10-calico.conf", SINGLE);
    node.succeed(&["once"]);
    let path = node.net("10-calico.conflist");
    let held = Held::start(&node, "uninstall");
    fs::write(&path, CALICO).unwrap();
    let log = held.ended();
    assert_eq!(fs::read_to_string(&path).unwrap(), CALICO, "{log}");
    assert!(!node.net("10-calico.conf").exists(), "{log}\n{}", node.show());
    assert!(
        !node.net("linkerd-cni.evergreen").exists(),
        "{log}\n{}",
        node.show()
    );
}

#[test]
fn removal_under_constant_writes_keeps_plugin() {
    let node = Node::new();
    let (single, path) = (node.net("10-calico.conf"), node.net("10-calico.conflist"));
    // On a busy machine the writer may pause for a second; the damaged file then counts as settled. Try again.
    let reported = (0..5).any(|_| {
        let _ = fs::remove_file(&path);
        fs::write(&single, SINGLE).unwrap();
        node.succeed(&["once"]);
        let whole = fs::read(&path).unwrap();
        let half = &whole[..whole.len() / 2];
        fs::write(&path, half).unwrap();
        let mut removal = node
            .command(&["uninstall"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while removal.try_wait().unwrap().is_none() {
            fs::write(&path, half).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        let output = removal.wait_with_output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        let reported =
            output.status.code() == Some(1) && log.contains("another process keeps rewriting the directory");
        assert!(
            !reported || node.bin("linkerd-cni").exists(),
            "{log}\n{}",
            node.show()
        );
        fs::write(&path, &whole).unwrap();
        reported
    });
    assert!(reported, "{}", node.show());
    // Nor does it forget what the list was made from.
    node.succeed(&["uninstall"]);
    assert_eq!(fs::read_to_string(&single).unwrap(), SINGLE);
    assert!(!path.exists(), "{}", node.show());
}
