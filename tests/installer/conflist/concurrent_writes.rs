//! A neighbour that writes between our look at its network and our change of it: what it wrote is never lost. `strace` holds
//! the installer where the new file is written and not yet in its place.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use evergreen_test_support::{budget::within, strace::straced};

use crate::node::{CALICO, Node, PATIENCE};

/// How long it is held: enough to write a file, however busy the machine is.
const HELD: Duration = Duration::from_secs(2);

/// An installer that is held before its first file is on disk: it has looked, and has not changed anything.
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
                "it changes nothing\n{}",
                node.show()
            );
            // The kernel tells nobody what another process waits in.
            thread::sleep(Duration::from_millis(2));
        }
        held
    }

    /// True while the process that strace follows is in the call of this number.
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

/// As a neighbour writes that reads its list, ours included, changes something and puts it back.
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
    // A machine so busy that the writer pauses for a second makes the half a whole that no runtime loads: then once more.
    let told = (0..5).any(|_| {
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
        let told =
            output.status.code() == Some(1) && log.contains("another process keeps rewriting the directory");
        assert!(
            !told || node.bin("linkerd-cni").exists(),
            "{log}\n{}",
            node.show()
        );
        fs::write(&path, &whole).unwrap();
        told
    });
    assert!(told, "{}", node.show());
    // Nor does it forget what the list was made from.
    node.succeed(&["uninstall"]);
    assert_eq!(fs::read_to_string(&single).unwrap(), SINGLE);
    assert!(!path.exists(), "{}", node.show());
}
