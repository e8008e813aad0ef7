//! The CNI specification by the letter, black-box: the cases that the reference library's own tests and behaviour come
//! to, for all commands and versions, each from one table. The blocks are numbered as in that list; blocks that need
//! rules or a chain have files of their own (`chains`, `killed`).

use std::io::Write;

use evergreen_test_support::{
    netns::Namespace,
    run::{CniCall, CniReply},
};
use serde_json::{Value, json};

use crate::node::Node;

const BINARY: &str = env!("CARGO_BIN_EXE_evergreen-cni");
const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// Counts the cases of a block and says so where `scripts/test` shows it.
struct Block(&'static str, usize);

impl Block {
    fn case(&mut self) {
        self.1 += 1;
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // Not `println!`: that is only shown when a test fails.
        let _ = writeln!(std::io::stderr(), "conformance: {}: {} cases", self.0, self.1);
    }
}

fn conf(version: &str) -> Value {
    json!({"name": "net", "type": "evergreen-cni", "cniVersion": version,
           "kubernetes": {"kubeconfig": "/nowhere/kubeconfig"}})
}

fn call(verb: &str) -> CniCall {
    CniCall::new(BINARY, verb, "/nowhere/netns").netconf(&conf("1.1.0"))
}

/// The code, message and details of a failure.
#[track_caller]
fn failure(call: &CniCall) -> (u64, String, String) {
    let error = call.fail().expect("a failure");
    let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    (
        error["code"].as_u64().expect("a code"),
        text("msg"),
        text("details"),
    )
}

#[track_caller]
fn silent(reply: &CniReply) {
    assert_eq!((reply.exit_code, &*reply.stdout), (Some(0), ""), "{reply:?}");
}

#[test]
fn block_1_without_a_command_it_says_what_it_is() {
    let mut block = Block("bare call", 0);
    for call in [
        CniCall::bare(BINARY),
        CniCall::bare(BINARY).env("CNI_COMMAND", ""),
        call("ADD").without("CNI_COMMAND"),
    ] {
        let reply = call.run().unwrap();
        silent(&reply);
        assert!(
            reply.stderr.starts_with("CNI plugin evergreen-cni v"),
            "{reply:?}"
        );
        assert!(
            reply.stderr.contains(&format!(
                "CNI protocol versions supported: {}\n",
                VERSIONS.join(", ")
            )),
            "{reply:?}"
        );
        block.case();
    }
}

#[test]
fn block_2_version_answers_whatever_stdin_and_environment_are() {
    let mut block = Block("VERSION", 0);
    let dummy = call("VERSION")
        .env("CNI_NETNS", "dummy")
        .env("CNI_IFNAME", "dummy")
        .env("CNI_PATH", "dummy");
    for call in [
        call("VERSION"),
        call("VERSION").stdin(""),
        call("VERSION").stdin("junk"),
        dummy.stdin(r#"{"cniVersion":"1.1.0"}"#),
        CniCall::bare(BINARY).env("CNI_COMMAND", "VERSION"),
    ] {
        let answer = call.succeed().unwrap().unwrap();
        assert_eq!(
            answer,
            json!({"cniVersion": "1.1.0", "supportedVersions": VERSIONS})
        );
        block.case();
    }
    // A stdin that nobody closes: the answer comes all the same.
    let mut child = call("VERSION").command_under(&[]).spawn().unwrap();
    let held_open = child.stdin.take();
    assert!(child.wait().unwrap().success());
    drop(held_open);
    block.case();
}

#[test]
fn block_3_missing_variables_are_named_together() {
    let mut block = Block("required variables", 0);
    let all = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"];
    for (verb, required) in [
        ("ADD", &all[..]),
        ("CHECK", &all),
        ("DEL", &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"]),
        ("GC", &["CNI_PATH"]),
        ("STATUS", &["CNI_PATH"]),
    ] {
        for missing in required.iter().map(|one| vec![*one]).chain([required.to_vec()]) {
            for absent in [true, false] {
                let stripped = missing.iter().fold(call(verb), |call, name| {
                    if absent {
                        call.without(name)
                    } else {
                        call.env(name, "")
                    }
                });
                let expected = format!("required env variables [{}] missing", missing.join(","));
                assert_eq!(failure(&stripped), (4, expected, String::new()), "{verb}");
                block.case();
            }
        }
    }
    let bare = |verb| {
        all.iter()
            .fold(call(verb), |call, name| call.env(name, ""))
            .env("CNI_PATH", "/x")
    };
    for verb in ["GC", "STATUS"] {
        silent(&bare(verb).run().unwrap());
        block.case();
    }
    silent(&call("DEL").env("CNI_NETNS", "").run().unwrap());
    block.case();
}

#[test]
fn block_4_names_are_checked_as_the_reference_checks_them() {
    let mut block = Block("container IDs and interface names", 0);
    for id in ["-a", "a b", "a%", "a\n", ".a", "ä"] {
        let expected = (4, "invalid characters in containerID".to_owned(), id.to_owned());
        assert_eq!(failure(&call("DEL").env("CNI_CONTAINERID", id)), expected);
        block.case();
    }
    let long = "interface name is too long";
    let odd = "interface name contains / or : or whitespace characters";
    for (name, message) in [
        ("sixteen-letters-", long),
        (".", "interface name is . or .."),
        ("..", "interface name is . or .."),
        ("a/b", odd),
        ("a:b", odd),
        ("a b", odd),
        ("a\tb", odd),
        ("a\u{a0}b", odd),
    ] {
        let (code, said, _) = failure(&call("DEL").env("CNI_IFNAME", name));
        assert_eq!((code, &*said), (4, message), "{name:?}");
        block.case();
    }
    for fine in [
        call("DEL").env("CNI_CONTAINERID", "a".repeat(300)),
        call("DEL").env("CNI_IFNAME", "fifteen-letters"),
    ] {
        silent(&fine.run().unwrap());
        block.case();
    }
    // Where a value is not required nobody looks at it.
    silent(
        &call("STATUS")
            .env("CNI_CONTAINERID", "-a")
            .env("CNI_IFNAME", "a/b")
            .run()
            .unwrap(),
    );
    block.case();
}

#[test]
fn block_5_stdin_is_checked_before_the_command_and_its_version() {
    let mut block = Block("stdin", 0);
    for verb in ["ADD", "DEL", "CHECK", "GC", "STATUS", "FOO"] {
        for stdin in ["", "{", "[]", "\"x\"", "7", r#"{"name":7}"#, r#"{"name":"n"} x"#] {
            let (code, message, _) = failure(&call(verb).stdin(stdin));
            assert_eq!(code, 6, "{verb} {stdin:?}");
            assert!(
                message.starts_with("error unmarshall network config: "),
                "{verb} {stdin:?}: {message}"
            );
            block.case();
        }
        for stdin in ["null", "{}", r#"{"name":""}"#] {
            let expected = (7, "missing network name".to_owned(), String::new());
            assert_eq!(failure(&call(verb).stdin(stdin)), expected, "{verb} {stdin:?}");
            block.case();
        }
        let expected = (
            7,
            "invalid characters found in network name".to_owned(),
            "a b".to_owned(),
        );
        assert_eq!(
            failure(&call(verb).stdin(r#"{"name":"a b"}"#)),
            expected,
            "{verb}"
        );
        block.case();
    }
}

#[test]
fn block_5_versions_are_told_apart_as_the_reference_tells_them() {
    let mut block = Block("cniVersion", 0);
    let with = |verb: &str, version: Value| {
        let mut conf = conf("");
        conf["cniVersion"] = version;
        call(verb).netconf(&conf)
    };
    for verb in ["ADD", "DEL"] {
        for version in ["1.0", "0.5.0", "1.2.0", "abc", "2.0.0"] {
            let (code, message, details) = failure(&with(verb, json!(version)));
            assert_eq!(
                (code, &*message),
                (1, "incompatible CNI versions"),
                "{verb} {version}"
            );
            assert!(
                details.starts_with(&format!("config is \"{version}\", plugin supports [\"0.1.0\" ")),
                "{details}"
            );
            block.case();
        }
        assert_eq!(failure(&with(verb, json!(1))).0, 6, "{verb}: a number");
        for version in [Value::Null, json!("")] {
            let reply = with(verb, version).run().unwrap();
            assert_eq!(reply.exit_code, Some(0), "{verb}: {reply:?}");
        }
        block.case();
    }
    for (verb, too_old, fine) in [
        ("CHECK", &["", "0.1.0", "0.2.0", "0.3.0", "0.3.1"][..], "1.2.0"),
        ("GC", &["", "0.4.0", "1.0.0"], "1.2.0"),
        ("STATUS", &["", "0.4.0", "1.0.0"], "1.2.0"),
    ] {
        for version in too_old {
            let expected = (1, format!("config version does not allow {verb}"), String::new());
            assert_eq!(failure(&with(verb, json!(version))), expected, "{version}");
            block.case();
        }
        assert_eq!(failure(&with(verb, json!("abc"))).0, 6, "{verb}");
        assert_eq!(
            failure(&with(verb, json!(fine))).0,
            1,
            "{verb}: a version of the future"
        );
        block.case();
    }
    assert_eq!(
        failure(&with("CHECK", json!("0.4.1"))).1,
        "incompatible CNI versions"
    );
}

#[test]
fn block_6_an_unknown_command_is_named() {
    let mut block = Block("unknown commands", 0);
    for verb in ["FOO", "add", "ADD ", "DELETE"] {
        assert_eq!(
            failure(&call(verb)),
            (4, format!("unknown CNI_COMMAND: {verb}"), String::new())
        );
        block.case();
    }
}

#[test]
fn block_7_a_previous_result_comes_back_as_it_came_in_every_version() {
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
        // First or alone in a chain: an empty result. linkerd-cni does so, and under Multus pods depend on it.
        for nothing in [add("null", version), call("ADD").netconf(&conf(version))] {
            assert_eq!(
                nothing.succeed().unwrap().unwrap(),
                json!({"cniVersion": version})
            );
        }
        let other = if version == "1.0.0" { "0.4.0" } else { "1.0.0" };
        let (code, message, _) = failure(&add(&format!(r#"{{"cniVersion":"{other}"}}"#), version));
        assert_eq!(code, 7, "{message}");
        block.1 += 6;
    }
}

#[test]
fn block_8_args_and_runtime_configuration_are_taken_in_any_shape_runtimes_give_them() {
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
fn block_9_del_succeeds_whatever_is_left_of_the_container() {
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
fn block_10_check_tells_rules_that_are_there_from_rules_that_are_not() {
    let mut block = Block("CHECK", 0);
    let node = Node::new();
    let namespace = Namespace::new();
    let pod = |verb: &str, previous: Value| {
        let mut conf = conf("1.1.0");
        conf["kubernetes"]["kubeconfig"] = json!(node.path("kubeconfig"));
        conf["prevResult"] = previous;
        CniCall::new(BINARY, verb, namespace.path())
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
    assert!(message.contains("output"), "names what is missing: {message}");
    namespace.nft("delete table ip evergreen_cni");
    assert_eq!(failure(&pod("CHECK", result)).0, 104);
    block.1 += 6;
}

#[test]
fn block_11_status_fails_only_for_a_configuration_that_would_fail_every_add() {
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
fn block_12_gc_takes_every_encoding_and_keeps_nothing() {
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
fn block_13_our_own_namespace_is_refused_before_anything_is_done() {
    let mut block = Block("own namespace", 0);
    // The binary is started inside a namespace of the test's, which is then its own.
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
fn block_14_output_is_one_document_with_exit_code_one_and_the_version_of_the_call() {
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
        reply.stderr.contains("level=info add skipped"),
        "logs go to stderr: {reply:?}"
    );
    block.case();
}
