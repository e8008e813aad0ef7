//! Changes behind a symlink that one of our files replaces.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command, thread, time::Duration};

use evergreen_test_support::strace::straced;

use crate::{
    conflist::links::{LINK, is_link_to, linked},
    node::CALICO,
};

#[test]
fn changed_target_and_recreated_symlink_are_followed() {
    let (node, file) = linked("/usr/lib/cni/calico");
    let mut installer = node.start_and_wait_for(LINK);
    installer.until(&node, "the link is replaced", || !node.net(LINK).is_symlink());
    // As a boot script of the node does.
    fs::remove_file(node.net(LINK)).unwrap();
    symlink("/usr/lib/cni/calico", node.net(LINK)).unwrap();
    let replaced = || !node.net(LINK).is_symlink() && node.has_entry(LINK);
    installer.until(&node, "the link is replaced again", replaced);
    drop(installer);
    fs::write(&file, CALICO.replace("k8s-pod-network", "renamed")).unwrap();
    node.succeed(&["once"]);
    assert!(replaced() && fs::read_to_string(node.net(LINK)).unwrap().contains("renamed"));
    // Content that no runtime can load is not copied.
    fs::write(&file, "{").unwrap();
    node.succeed(&["once"]);
    assert!(replaced() && fs::read_to_string(node.net(LINK)).unwrap().contains("renamed"));
    fs::remove_file(&file).unwrap();
    node.succeed(&["once"]);
    assert!(replaced());
    // Opening a named pipe would block forever.
    let made = Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    node.succeed(&["once"]);
    assert!(replaced());
    node.succeed(&["uninstall"]);
    assert!(
        is_link_to(&node.net(LINK), "/usr/lib/cni/calico"),
        "{}",
        node.show()
    );
}

#[test]
fn changed_target_never_removes_entry() {
    let (node, file) = linked("/usr/lib/cni/calico");
    node.succeed(&["once"]);
    fs::write(&file, CALICO.replace("k8s-pod-network", "renamed")).unwrap();
    // Each fsync is delayed, so that every state between two files is visible.
    let mut held = straced(
        Path::new("/dev/null"),
        &["-e", "trace=fsync", "-e", "inject=fsync:delay_enter=100000"],
        &node.command(&["once"]),
    )
    .spawn()
    .expect("strace is installed");
    let mut without = 0;
    while held.try_wait().unwrap().is_none() {
        without += u32::from(!node.has_entry(LINK));
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(without, 0, "observations without our entry");
    assert!(node.has_entry(LINK) && fs::read_to_string(node.net(LINK)).unwrap().contains("renamed"));
}
