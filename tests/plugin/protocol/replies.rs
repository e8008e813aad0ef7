//! What a black-box tester did to the plugin's binary and found wrong.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as it should be"
)]

use std::{
    ffi::OsStr,
    fs::OpenOptions,
    io::pipe,
    process::{Command, Stdio},
};

use evergreen_test_support::{
    api::{Answer, Door},
    netns::Namespace,
    run::CniCall,
};
use serde_json::{Value, json};

use crate::node::{Node, pod};

const PLUGIN: &str = env!("CARGO_BIN_EXE_evergreen-cni");

fn netconf(node: &Node) -> Value {
    json!({"cniVersion": "1.1.0", "name": "linkerd-cni", "type": "linkerd-cni",
        "kubernetes": {"kubeconfig": node.path("kubeconfig")}, "evergreen": {"deadline-seconds": 1},
        "prevResult": {"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.7/24"}]}})
}

fn add(node: &Node, namespace: &Namespace) -> CniCall {
    CniCall::new(PLUGIN, "ADD", namespace.path())
        .pod("shop", "web-0")
        .netconf(&netconf(node))
}

/// The message of a call that fails.
fn message_of(call: &CniCall) -> String {
    let reply = call.run().expect("the binary starts");
    assert_eq!(reply.exit_code, Some(1), "{reply:?}");
    let error: Value = serde_json::from_str(&reply.stdout).expect("one document");
    error["msg"].as_str().expect("a message").to_owned()
}

#[test]
fn a_version_newer_than_all_is_refused_in_the_reference_library_s_words() {
    for (verb, message) in [
        ("ADD", "incompatible CNI versions"),
        ("DEL", "incompatible CNI versions"),
        ("CHECK", "plugin version does not allow CHECK"),
        ("GC", "plugin version does not allow GC"),
        ("STATUS", "plugin version does not allow STATUS"),
    ] {
        let call = CniCall::new(PLUGIN, verb, "/run/netns/none")
            .netconf(&json!({"cniVersion": "1.2.0", "name": "n"}));
        assert_eq!(message_of(&call), message, "{verb}");
    }
}

#[test]
fn a_reply_that_could_not_be_written_is_no_success() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_says_that_nobody_could_be_answered(full.into());
}

#[test]
fn a_reply_that_nobody_reads_is_an_error_and_no_signal() {
    let (nobody, stdout) = pipe().unwrap();
    drop(nobody);
    assert_says_that_nobody_could_be_answered(stdout.into());
}

fn assert_says_that_nobody_could_be_answered(stdout: Stdio) {
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
    assert!(said.contains("could not be written to stdout"), "{said}");
}

#[test]
fn started_without_streams_no_file_or_socket_of_ours_takes_their_place() {
    let node = Node::new();
    let mut by_hand = pod("meshed");
    by_hand["metadata"]["annotations"]["linkerd.io/created-by"] = json!("linkerd/cli x");
    node.api.put_pod("shop", "web-0", by_hand);
    node.api.put_namespace("shop", json!({}));
    // Says something between two requests on one connection.
    let mut netconf = netconf(&node);
    netconf["log_level"] = json!("debug");
    let call = |namespace: &Namespace, closed: &str| {
        let script = format!("exec \"$0\" {closed}");
        let shell = ["sh", "-c", &script].map(OsStr::new);
        add(&node, namespace).netconf(&netconf).run_under(&shell).unwrap()
    };
    for closed in [">&-", "2>&-", ">&- 2>&-"] {
        let namespace = Namespace::new();
        let (requests, connections) = (node.api.requests().len(), node.api.connections());
        let reply = call(&namespace, closed);
        assert_eq!(reply.exit_code, Some(0), "{closed}: {reply:?}");
        assert!(namespace.nft_list().contains("redirect"), "{closed}: {reply:?}");
        let asked = node.api.requests().len() - requests;
        let connected = node.api.connections() - connections;
        assert_eq!((asked, connected), (2, 1), "{closed}: {reply:?}");
    }
    let reply = call(&Namespace::new(), "<&-");
    assert_eq!(
        reply.document().unwrap()["code"],
        6,
        "nothing is stdin: {reply:?}"
    );
}

#[test]
fn a_handshake_that_never_comes_is_named_however_often_it_was_tried() {
    let node = Node::new();
    node.api.set_door(Door::Silent);
    let said = message_of(&add(&node, &Namespace::new()));
    assert!(said.contains("for the TLS handshake"), "{said}");
    assert!(!said.contains("waited 0.0s"), "{said}");
}

#[test]
fn a_dead_proxy_is_named_and_its_password_is_not() {
    let node = Node::new();
    node.write_kubeconfig(&node.with_cluster(
        json!({"server": node.api.url(), "certificate-authority": "ca.crt",
        "proxy-url": "http://u:s3cret-t0ken@127.0.0.1:1"}),
    ));
    let said = message_of(&add(&node, &Namespace::new()));
    assert!(
        said.contains("by way of the proxy 127.0.0.1:1 of proxy-url"),
        "{said}"
    );
    assert!(!said.contains("s3cret"), "{said}");
}

#[test]
fn a_control_plane_pod_has_ports_to_fall_back_on_whatever_becomes_of_the_service() {
    let node = Node::new();
    let mut control_plane = pod("meshed");
    control_plane["metadata"]["labels"]["linkerd.io/control-plane-component"] = json!("identity");
    node.api.put_pod("shop", "web-0", control_plane);
    for answer in [
        Answer::new(404, "404 page not found\n"),
        Answer::new(500, "Internal Server Error"),
        Answer::new(200, "<html>"),
        Answer::new(200, "{}"),
    ] {
        let path = "/api/v1/namespaces/default/services/kubernetes";
        node.api.set_answer("GET", path, answer);
        let namespace = Namespace::new();
        let reply = add(&node, &namespace).run().unwrap();
        assert_eq!(reply.exit_code, Some(0), "{reply:?}");
        let rules = namespace.nft_list();
        assert!(rules.contains("443") && rules.contains("6443"), "{rules}");
        node.api.clear_answers();
    }
}

#[test]
fn a_namespace_that_is_not_served_is_lived_with() {
    let node = Node::new();
    let mut by_hand = pod("meshed");
    by_hand["metadata"]["annotations"]["linkerd.io/created-by"] = json!("linkerd/cli x");
    node.api.put_pod("shop", "web-0", by_hand);
    node.api.set_answer(
        "GET",
        "/api/v1/namespaces/shop",
        Answer::new(404, "404 page not found\n"),
    );
    let namespace = Namespace::new();
    let reply = add(&node, &namespace).run().unwrap();
    assert_eq!(reply.exit_code, Some(0), "{reply:?}");
    assert!(
        reply
            .stderr
            .contains("namespace unreadable, its annotations are ignored"),
        "{reply:?}"
    );
    assert!(namespace.nft_list().contains("redirect"), "{reply:?}");
}

#[test]
fn a_kubeconfig_that_is_damaged_or_not_whole_is_one_that_is_not_there_and_the_annotations_decide() {
    let node = Node::new();
    let whole = node.kubeconfig();
    let text = whole.to_string();
    let lacks = |list: &str| {
        let mut config = whole.clone();
        config[list] = Value::Null;
        config.to_string()
    };
    let yaml = "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    serv";
    let mut netconf = netconf(&node);
    netconf["runtimeConfig"] =
        json!({"io.kubernetes.cri.pod-annotations": {"linkerd.io/proxy-version": "x"}});
    for damaged in [
        "",
        &text[..text.len() / 2],
        "\0\0\0\0",
        "{{{",
        yaml,
        &lacks("users"),
        &lacks("clusters"),
    ] {
        node.write("kubeconfig", damaged);
        let namespace = Namespace::new();
        let reply = add(&node, &namespace).netconf(&netconf).run().unwrap();
        assert_eq!(reply.exit_code, Some(0), "{damaged:?}: {reply:?}");
        assert!(
            namespace.nft_list().contains("redirect"),
            "{damaged:?}: {reply:?}"
        );
    }
    // What somebody has written and is wrong must not stay unseen.
    let mut wrong = whole;
    wrong["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
    node.write_kubeconfig(&wrong);
    let message = message_of(&add(&node, &Namespace::new()).netconf(&netconf));
    assert!(message.contains("remove one of the two"), "{message}");
}
