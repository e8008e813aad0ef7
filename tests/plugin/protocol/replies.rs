//! Replies that cannot be written, closed standard streams, and unsupported versions.

use std::{
    ffi::OsStr,
    fs::OpenOptions,
    io::pipe,
    process::{Command, Stdio},
};

use evergreen_test_support::{netns::Namespace, run::CniCall};
use serde_json::json;

use crate::node::{Node, PLUGIN, call};

#[test]
fn unsupported_version_gets_the_reference_librarys_message() {
    for (verb, message) in [
        ("ADD", "incompatible CNI versions"),
        ("DEL", "incompatible CNI versions"),
        ("CHECK", "plugin version does not allow CHECK"),
        ("GC", "plugin version does not allow GC"),
        ("STATUS", "plugin version does not allow STATUS"),
    ] {
        let call = CniCall::new(PLUGIN, verb, "/run/netns/none")
            .netconf(&json!({"cniVersion": "1.2.0", "name": "n"}));
        assert_eq!(call.fail().unwrap()["msg"], message, "{verb}");
    }
}

#[test]
fn unwritable_reply_is_an_error() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_reports_unwritten_reply(full.into());
}

#[test]
fn unread_reply_is_an_error_without_a_signal() {
    let (reader, stdout) = pipe().unwrap();
    drop(reader);
    assert_reports_unwritten_reply(stdout.into());
}

fn assert_reports_unwritten_reply(stdout: Stdio) {
    let output = Command::new(PLUGIN)
        .env_clear()
        .env("CNI_COMMAND", "VERSION")
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot write the reply to stdout"), "{said}");
}

#[test]
fn closed_streams_are_not_reused_for_sockets() {
    let node = Node::new();
    node.put_manually_injected_pod();
    node.api.put_namespace("shop", json!({}));
    // With debug logging the plugin writes to stderr between two requests on one connection.
    let mut netconf = node.netconf(&["10.0.0.7/24"]);
    netconf["log_level"] = json!("debug");
    let add = |namespace: &Namespace, closed: &str| {
        let script = format!("exec \"$0\" {closed}");
        let shell = ["sh", "-c", &script].map(OsStr::new);
        call("ADD", namespace, &netconf).run_under(&shell).unwrap()
    };
    for closed in [">&-", "2>&-", ">&- 2>&-"] {
        let namespace = Namespace::new();
        let (requests, connections) = (node.api.requests().len(), node.api.connections());
        let reply = add(&namespace, closed);
        assert_eq!(reply.exit_code, Some(0), "{closed}: {reply:?}");
        assert!(namespace.nft_list().contains("redirect"), "{closed}: {reply:?}");
        let asked = node.api.requests().len() - requests;
        let connected = node.api.connections() - connections;
        assert_eq!((asked, connected), (2, 1), "{closed}: {reply:?}");
    }
    let reply = add(&Namespace::new(), "<&-");
    assert_eq!(
        reply.document().unwrap()["code"],
        6,
        "a closed stdin is an error: {reply:?}"
    );
}
