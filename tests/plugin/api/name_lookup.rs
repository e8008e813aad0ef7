//! Name resolution in a static program: never through the host's NSS modules, which are built for another C library
//! and would crash the plugin.

use std::{ffi::OsStr, fs, io::Write};

use evergreen_test_support::{
    run::{CniCall, binary},
    strace::strace,
};
use serde_json::json;

use crate::node::Node;

#[test]
fn host_nss_modules_are_not_loaded() {
    let node = Node::new();
    let server = format!("https://localhost:{}", node.api.address().port());
    node.write_kubeconfig(&node.with_cluster(json!({"server": server, "certificate-authority": "ca.crt"})));
    // An NSS module listed before `files`; with its default settings glibc tries to load it.
    node.write("nsswitch.conf", "hosts: evergreen_probe files dns\n");
    let netconf = json!({"cniVersion": "1.0.0", "name": "linkerd-cni", "type": "linkerd-cni",
        "kubernetes": {"kubeconfig": node.path("kubeconfig")}, "linkerd": {"simulate": true},
        "prevResult": {"cniVersion": "1.0.0", "interfaces": [], "ips": []}});

    // A separate mount namespace replaces the host's file for this process only.
    let script = format!(
        "mount --bind {}/nsswitch.conf /etc/nsswitch.conf && exec \"$0\" \"$@\"",
        node.dir.display()
    );
    let strace = strace(&node.path("trace"), &["-e", "trace=openat"]);
    let words = ["unshare", "--mount", "sh", "-c", script.as_str()].map(OsStr::new);
    let words: Vec<&OsStr> = words
        .into_iter()
        .chain(strace.iter().map(AsRef::as_ref))
        .collect();
    let call = CniCall::new(binary("evergreen-cni"), "ADD", "/var/run/netns/none").pod("shop", "web-0");
    let mut command = call.command_under(&words);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let mut child = command.spawn().expect("unshare and strace are installed");
    let mut pipe = child.stdin.take().expect("a pipe");
    write!(pipe, "{netconf}").expect("write the network configuration");
    drop(pipe);
    let output = child.wait_with_output().expect("wait for the plugin");

    assert_eq!(node.api.requests().len(), 1, "the name was not found: {output:?}");
    let trace = fs::read_to_string(node.path("trace")).expect("strace wrote its trace");
    assert!(trace.contains("/etc/hosts"), "{trace}");
    assert!(
        !trace.contains("evergreen_probe"),
        "an NSS module was opened: {trace}"
    );
}
