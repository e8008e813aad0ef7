//! ADD when optional answers are missing or the kubeconfig is damaged.

use evergreen_test_support::{api::Answer, netns::Namespace};
use serde_json::{Value, json};

use crate::node::{Node, call, pod};

fn netconf(node: &Node) -> Value {
    let mut netconf = node.netconf(&["10.0.0.7/24"]);
    netconf["evergreen"] = json!({"deadline-seconds": 1});
    netconf
}

#[test]
fn control_plane_ports_have_a_default() {
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
        let reply = call("ADD", &namespace, &netconf(&node)).run().unwrap();
        assert_eq!(reply.exit_code, Some(0), "{reply:?}");
        let rules = namespace.nft_list();
        assert!(rules.contains("443") && rules.contains("6443"), "{rules}");
        node.api.clear_answers();
    }
}

#[test]
fn missing_namespace_object_does_not_fail_add() {
    let node = Node::new();
    node.put_manually_injected_pod();
    node.api.set_answer(
        "GET",
        "/api/v1/namespaces/shop",
        Answer::new(404, "404 page not found\n"),
    );
    let namespace = Namespace::new();
    let reply = call("ADD", &namespace, &netconf(&node)).run().unwrap();
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
fn annotations_decide_with_a_damaged_kubeconfig() {
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
        let reply = call("ADD", &namespace, &netconf).run().unwrap();
        assert_eq!(reply.exit_code, Some(0), "{damaged:?}: {reply:?}");
        assert!(
            namespace.nft_list().contains("redirect"),
            "{damaged:?}: {reply:?}"
        );
    }
    // A complete kubeconfig with a mistake must be reported.
    let mut wrong = whole;
    wrong["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
    node.write_kubeconfig(&wrong);
    let error = call("ADD", &Namespace::new(), &netconf)
        .fail()
        .unwrap()
        .to_string();
    assert!(error.contains("remove one of the two"), "{error}");
}
