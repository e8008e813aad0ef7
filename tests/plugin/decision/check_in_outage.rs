//! CHECK while the API server is unreachable: the checksum in the rules' comments shows whether they are complete.

use evergreen_test_support::{netns::Namespace, run::CniCall};
use serde_json::{Value, json};

use crate::node::{self, Node};

/// A call for the meshed pod, with a short deadline because the API server is down.
fn call(node: &Node, verb: &str, namespace: &Namespace, annotations: Value) -> CniCall {
    let mut netconf = node.netconf(&["10.1.0.5/24"]);
    netconf["evergreen"] = json!({"deadline-seconds": 0.8});
    netconf["linkerd"] = json!({"proxy-uid": 7777});
    netconf["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": annotations});
    node::call(verb, namespace, &netconf)
}

#[test]
fn check_passes_in_an_outage_with_any_annotations() {
    let mut node = Node::new();
    let namespace = Namespace::new();
    for annotations in [Value::Null, json!({"linkerd.io/proxy-version": "x"})] {
        call(&node, "ADD", &namespace, annotations.clone())
            .succeed()
            .unwrap();
        node.api.pause();
        let checked = call(&node, "CHECK", &namespace, annotations.clone())
            .succeed()
            .unwrap();
        assert_eq!(checked, None, "annotations {annotations}");
        namespace.nft("flush chain ip evergreen_cni prerouting");
        let error = call(&node, "CHECK", &namespace, annotations).fail().unwrap();
        assert_eq!(error["code"], 104, "{error}");
        assert!(error["msg"].as_str().unwrap().contains("prerouting"), "{error}");
        node.api.resume();
    }
}

#[test]
fn missing_rules_fail_check_only_for_injected_pods() {
    let mut node = Node::new();
    node.api.pause();
    let namespace = Namespace::new();
    let marked = json!({"linkerd.io/proxy-version": "x"});
    assert_eq!(
        call(&node, "CHECK", &namespace, marked).fail().unwrap()["code"],
        104
    );
    assert_eq!(
        call(&node, "CHECK", &namespace, Value::Null).succeed().unwrap(),
        None
    );
}

#[test]
fn simulated_redirect_passes_check_without_rules() {
    let node = Node::new();
    let namespace = Namespace::new();
    let conf = json!({
        "name": "net", "type": "evergreen-cni", "cniVersion": "1.1.0",
        "kubernetes": {"kubeconfig": node.path("kubeconfig")}, "linkerd": {"simulate": true}, "prevResult": {}
    });
    for verb in ["ADD", "CHECK"] {
        call(&node, verb, &namespace, Value::Null)
            .netconf(&conf)
            .succeed()
            .unwrap();
    }
    assert_eq!(namespace.nft_list(), "");
}
