//! Blocks 7 to 14: what each command does with a valid call.

use evergreen_test_support::{netns::Namespace, run::CniCall};
use serde_json::{Value, json};

use super::{Block, VERSIONS, call, conf, failure, silent};
use crate::node::{Node, PLUGIN};

#[test]
fn block_7_previous_result_is_returned_unchanged() {
    let mut block = Block("prevResult", 0);
    let add = |previous: &str, version: &str| {
        let conf = conf(version).to_string();
        let conf = format!(r#"{},"prevResult":{previous}}}"#, conf.strip_suffix('}').unwrap());
        call("ADD").stdin(conf)
    };
    for version in VERSIONS {
        let shape = match version {
            "0.1.0" | "0.2.0" => {
                r#""ip4":{"ip":"10.1.0.5/24","gateway":"10.1.0.1","routes":[{"dst":"0.0.0.0/0"}]},"dns":{}"#
            }
            "1.0.0" | "1.1.0" => {
                r#""interfaces":[{"name":"eth0","mac":"0A:58:0a:01:00:05","sandbox":"/x"}],"ips":[{"address":"10.1.0.5/24","interface":0}]"#
            }
            _ => {
                r#""ips":[{"version":"4","address":"10.1.0.5/24","interface":0}],"dns":{"nameservers":["10.0.0.1"]}"#
            }
        };
        let odd = r#""x-ours":{"big":18446744073709551615,"one":1.50,"text":"\u003ca\u003e \ud83d\ude00"}"#;
        let stated = format!(r#"{{"cniVersion":"{version}",{shape},{odd}}}"#);
        assert_eq!(add(&stated, version).run().unwrap().stdout, stated.clone() + "\n");
        let unstated = stated.replace(&format!(r#""cniVersion":"{version}","#), "");
        assert_eq!(
            add(&unstated, version).run().unwrap().stdout,
            stated + "\n",
            "the version is added"
        );
        assert_eq!(
            add("{}", version).succeed().unwrap().unwrap(),
            json!({"cniVersion": version})
        );
        // First or alone in a chain it returns an empty result. linkerd-cni does the same, and pods under Multus need it.
        for nothing in [add("null", version), call("ADD").netconf(&conf(version))] {
            assert_eq!(
                nothing.succeed().unwrap().unwrap(),
                json!({"cniVersion": version})
            );
        }
        block.1 += 5;
    }
}

#[test]
fn block_7_previous_result_may_state_compatible_versions() {
    let mut block = Block("prevResult of another version", 0);
    // The reference library has one type for each group and accepts any version of the group.
    let shapes = [
        &["0.1.0", "0.2.0"][..],
        &["0.3.0", "0.3.1", "0.4.0"],
        &["1.0.0", "1.1.0"],
    ];
    let shape_of = |version| shapes.iter().position(|shape| shape.contains(&version));
    for asked in VERSIONS {
        for stated in VERSIONS {
            let mut conf = conf(asked);
            conf["prevResult"] = json!({"dns": {}, "cniVersion": stated, "x": 1});
            let call = call("ADD").netconf(&conf);
            if shape_of(asked) == shape_of(stated) {
                let result = json!({"dns": {}, "cniVersion": asked, "x": 1});
                assert_eq!(call.succeed().unwrap().unwrap(), result, "{stated} in {asked}");
            } else {
                let (code, message, _) = failure(&call);
                assert_eq!(code, 7, "{stated} in {asked}: {message}");
            }
            block.case();
        }
    }
    // A configuration without a version counts as 0.1.0.
    let conf =
        json!({"name": "net", "kubernetes": {"kubeconfig": "/x"}, "prevResult": {"cniVersion": "0.2.0"}});
    let result = call("ADD").netconf(&conf).succeed().unwrap().unwrap();
    assert_eq!(result, json!({"cniVersion": "0.1.0"}));
    block.case();
}

#[test]
fn block_7_other_commands_ignore_the_previous_result() {
    let mut block = Block("prevResult of DEL, GC and STATUS", 0);
    for previous in [json!({"cniVersion": "0.4.0"}), json!([]), json!({"ips": 7})] {
        for verb in ["DEL", "GC", "STATUS"] {
            let mut conf = conf("1.1.0");
            conf["prevResult"] = previous.clone();
            silent(&call(verb).netconf(&conf).run().unwrap());
            block.case();
        }
    }
}

#[test]
fn block_8_every_shape_of_args_is_accepted() {
    let mut block = Block("CNI_ARGS and runtimeConfig", 0);
    let exempt = "IgnoreUnknown=1;K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=p";
    for args in [
        "",
        exempt,
        "K8S_POD_NAME=p;IgnoreUnknown=1;K8S_POD_NAMESPACE=kube-system;X=y",
        "IgnoreUnknown=true",
    ] {
        call("ADD").env("CNI_ARGS", args).succeed().unwrap();
        block.case();
    }
    for args in [
        "K8S_POD_NAME=p;",
        "FOO",
        "FOO=1",
        "a=b=c",
        "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=../x",
    ] {
        let (code, message, _) = failure(&call("ADD").env("CNI_ARGS", args));
        assert_eq!(code, 4, "{message}");
        assert!(message.contains("CNI_ARGS"), "{message}");
        block.case();
    }
    for runtime in [
        json!({"io.kubernetes.cri.pod-annotations": null}),
        json!({"portMappings": [{"HostPort": 80, "ContainerPort": 80, "Protocol": "tcp", "HostIP": ""}]}),
        json!({"bandwidth": {"IngressRate": 1}, "dns": {"Servers": null}}),
        Value::Null,
    ] {
        let mut conf = conf("1.1.0");
        conf["capabilities"] = json!({"io.kubernetes.cri.pod-annotations": true});
        conf["runtimeConfig"] = runtime;
        conf["args"] = json!({"cni": {}});
        conf["cni.dev/x"] = json!(1);
        call("ADD")
            .env("CNI_ARGS", exempt)
            .netconf(&conf)
            .succeed()
            .unwrap();
        block.case();
    }
}

#[test]
fn block_9_del_succeeds_without_a_container() {
    let mut block = Block("DEL", 0);
    let file = std::env::temp_dir().join(format!("evergreen-plain-file-{}", std::process::id()));
    std::fs::write(&file, "").unwrap();
    let namespace = Namespace::new();
    for netns in [
        "".as_ref(),
        "/nowhere/netns".as_ref(),
        file.as_os_str(),
        namespace.path().as_os_str(),
    ] {
        for conf in [
            conf("1.1.0"),
            json!({"name": "net", "linkerd": {"proxy-uid": "junk"}}),
        ] {
            for _ in 0..2 {
                silent(&call("DEL").env("CNI_NETNS", netns).netconf(&conf).run().unwrap());
                block.case();
            }
        }
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn block_10_check_detects_missing_rules() {
    let mut block = Block("CHECK", 0);
    let node = Node::new();
    let namespace = Namespace::new();
    let pod = |verb: &str, previous: Value| {
        let mut conf = conf("1.1.0");
        conf["kubernetes"]["kubeconfig"] = json!(node.path("kubeconfig"));
        conf["prevResult"] = previous;
        CniCall::new(PLUGIN, verb, namespace.path())
            .pod("shop", "web-0")
            .netconf(&conf)
    };
    let result = json!({"cniVersion": "1.1.0", "ips": [{"address": "10.1.0.5/24"}]});
    assert_eq!(
        failure(&pod("CHECK", Value::Null)).1,
        "Required prevResult missing"
    );
    assert_eq!(failure(&pod("CHECK", result.clone())).0, 104, "before ADD");
    pod("ADD", result.clone()).succeed().unwrap();
    silent(&pod("CHECK", result.clone()).run().unwrap());
    namespace.nft("flush chain ip evergreen_cni output");
    let (code, message, _) = failure(&pod("CHECK", result.clone()));
    assert_eq!(code, 104, "{message}");
    assert!(
        message.contains("output"),
        "the message names the missing rules: {message}"
    );
    namespace.nft("delete table ip evergreen_cni");
    assert_eq!(failure(&pod("CHECK", result)).0, 104);
    block.1 += 6;
}

#[test]
fn block_11_status_fails_only_for_unusable_configuration() {
    let mut block = Block("STATUS", 0);
    silent(&call("STATUS").run().unwrap());
    for broken in [
        json!({"linkerd": {"iptables-mode": "bogus"}}),
        json!({"linkerd": {"incoming-proxy-port": 0}}),
        json!({"evergreen": {"on-api-failure": "shrug"}}),
        json!({"kubernetes": null}),
        json!({"kubernetes": {"kubeconfig": "__KUBECONFIG_FILEPATH__"}}),
    ] {
        let mut conf = conf("1.1.0");
        conf.as_object_mut()
            .unwrap()
            .extend(broken.as_object().unwrap().clone());
        let (code, message, _) = failure(&call("STATUS").netconf(&conf));
        assert_eq!(code, 50, "{message}");
        block.case();
    }
}

#[test]
fn block_12_gc_accepts_every_encoding() {
    let mut block = Block("GC", 0);
    let attachments = [
        json!([{"containerID": "c", "ifname": "eth0"}]),
        json!([]),
        Value::Null,
    ];
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        for attachments in &attachments {
            let mut conf = conf("1.1.0");
            conf[key] = attachments.clone();
            silent(&call("GC").netconf(&conf).run().unwrap());
            block.case();
        }
    }
    silent(&call("GC").run().unwrap());
    block.case();
}

#[test]
fn block_13_own_namespace_is_refused() {
    let mut block = Block("own namespace", 0);
    // The plugin starts inside the test's namespace, which is therefore its own.
    let own = Namespace::new();
    let start = |verb: &str, given: &str| {
        let call = call(verb)
            .env("CNI_NETNS", "/proc/self/ns/net")
            .env("CNI_NETNS_OVERRIDE", given);
        own.run(|| call.run().unwrap())
    };
    for verb in ["ADD", "DEL", "CHECK"] {
        let reply = start(verb, "");
        let error = reply.document().unwrap();
        if verb != "CHECK" {
            assert_eq!(
                (reply.exit_code, &error["code"]),
                (Some(1), &json!(8)),
                "{reply:?}"
            );
            assert_eq!(
                error["msg"],
                "plugin's netns and netns from CNI_NETNS should not be the same"
            );
        }
        block.case();
    }
    for given in ["1", "TRUE", "True", "true"] {
        let reply = start("ADD", given);
        assert_eq!(reply.exit_code, Some(0), "{reply:?}");
        block.case();
    }
    assert_eq!(own.nft_list(), "");
}

#[test]
fn block_14_error_states_the_calls_version() {
    let mut block = Block("output", 0);
    for version in VERSIONS {
        let mut conf = conf(version);
        conf["linkerd"] = json!({"proxy-uid": "junk"});
        let error = call("ADD").netconf(&conf).fail().unwrap();
        assert_eq!(error["cniVersion"], version);
        block.case();
    }
    let mut debug = conf("1.1.0");
    debug["log_level"] = json!("debug");
    let reply = call("ADD").netconf(&debug).run().unwrap();
    reply.document().unwrap();
    assert!(
        reply
            .stderr
            .contains("level=info component=plugin msg=\"add skipped"),
        "logs go to stderr: {reply:?}"
    );
    block.case();
}
