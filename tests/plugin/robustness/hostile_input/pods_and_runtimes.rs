//! Pods that an API server should reject, and calls that a runtime should not make.

use std::{fmt::Write as _, fs, process::Command};

use serde_json::json;

use super::Sandbox;

// === the pod ===

#[test]
fn first_proxy_container_of_two_decides() {
    let mut sandbox = Sandbox::new();
    sandbox.netconf["log_level"] = json!("info");
    let twin =
        |uid: u32| json!({"name": "linkerd-proxy", "image": "x", "securityContext": {"runAsUser": uid}});
    // The API server rejects two containers of the same name; a proxy in front of it may not.
    for (change, uid) in [
        (json!({"containers": [twin(3000), twin(4000)]}), 3000),
        (
            json!({"initContainers": [twin(3000)], "containers": [twin(4000)]}),
            4000,
        ),
        (
            json!({"initContainers": [twin(3000), twin(4000)], "containers": []}),
            3000,
        ),
    ] {
        sandbox.change_pod(|pod| {
            for (key, value) in change.as_object().unwrap() {
                pod["spec"][key] = value.clone();
            }
        });
        let rules = sandbox.works();
        assert!(
            rules.contains(&format!("meta skuid {uid} return")),
            "{change}\n{rules}"
        );
    }
}

#[test]
fn hostile_container_names_change_nothing() {
    let sandbox = Sandbox::new();
    let mut odd = String::new();
    for i in 0..32_u8 {
        let _ = write!(odd, "{}", char::from(i));
    }
    for (name, address) in [
        ("linkerd-proxy\u{0}", "0.0.0.0:4143"),
        ("linkerd-proxy ", "[::]:4143"),
        ("LINKERD-PROXY", "0.0.0.0:4143"),
        (&odd, &odd),
        ("web", "0.0.0.0:99999,:,::::,[::]:,[]:0"),
    ] {
        sandbox.change_pod(|pod| {
            pod["spec"]["containers"][1]["name"] = json!(name);
            let env = pod["spec"]["containers"][0]["env"].as_array_mut().unwrap();
            env.push(json!({"name": "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", "value": address}));
            pod["metadata"]["labels"]["example.com/odd"] = json!(odd);
        });
        let rules = sandbox.works();
        assert!(
            rules.contains("redirect to :4143") && rules.contains("redirect to :4140"),
            "{name:?}\n{rules}"
        );
        assert!(
            !rules.chars().any(|c| c.is_control() && c != '\n' && c != '\t'),
            "{name:?}"
        );
    }
}

// === the runtime ===

#[test]
fn invalid_pod_name_is_refused_before_any_request() {
    let sandbox = Sandbox::new();
    for name in [
        "../x",
        "x/../../secrets/y",
        "x/log",
        "x?watch=true",
        "x%2f..",
        "x\n",
        "x y",
        " web-0",
        "web-0 ",
        "x#",
        "\u{e4}",
        "X",
        "-x",
        "x.",
        "..",
    ] {
        for args in [
            format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={name}"),
            format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={name};K8S_POD_NAME=web-0"),
        ] {
            let (code, message) = sandbox.refused(&sandbox.call("ADD").env("CNI_ARGS", &args));
            assert_eq!(code, 4, "{args:?}: {message}");
            assert!(message.contains("CNI_ARGS"), "{message}");
            assert!(!message.contains('\n'), "one line: {message}");
        }
    }
    assert_eq!(sandbox.node.api.connections(), 0);
}

#[test]
fn invalid_uid_is_only_compared() {
    let sandbox = Sandbox::new();
    for uid in ["../x", "x y", "%", "\u{e4}"] {
        let args = format!("K8S_POD_UID={uid};K8S_POD_NAME=web-0;IgnoreUnknown=1;K8S_POD_NAMESPACE=shop");
        let (code, message) = sandbox.refused(&sandbox.call("ADD").env("CNI_ARGS", args));
        assert_eq!(code, 101, "{message}");
        assert!(message.contains("it was recreated"), "{message}");
    }
    let asked = sandbox.node.api.requests();
    assert!(
        asked
            .iter()
            .all(|r| r.path.starts_with("/api/v1/namespaces/shop/pods/web-0")),
        "{asked:?}"
    );
}

#[test]
fn invalid_netns_is_named_without_blocking() {
    let sandbox = Sandbox::new();
    let folder = sandbox.node.path("places");
    fs::create_dir(&folder).unwrap();
    let place = |name: &str| folder.join(name);
    fs::write(place("file"), "").unwrap();
    std::os::unix::fs::symlink("loop", place("loop")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(place("fifo"))
            .status()
            .unwrap()
            .success()
    );
    for (path, says) in [
        (place("missing"), "does not exist"),
        (place("file"), "is a plain file, not a network namespace"),
        (folder.clone(), "is a directory, not a network namespace"),
        (place("loop"), "cannot open"),
        (place("fifo"), "not a network namespace"),
        (place("file/below"), "cannot open"),
        ("/proc/self/ns/mnt".into(), "not a network namespace"),
        ("/dev/zero".into(), "not a network namespace"),
    ] {
        let on = |verb: &str| sandbox.call(verb).env("CNI_NETNS", &path);
        for verb in ["ADD", "CHECK"] {
            let (code, message) = sandbox.refused(&on(verb));
            assert_eq!(code, 8, "{message}");
            for part in [says, "CNI_NETNS", path.to_str().unwrap()] {
                assert!(message.contains(part), "{verb}: {part} in {message}");
            }
        }
        on("DEL").succeed().unwrap();
        // A pod in an exempt namespace needs no netns.
        let exempt = on("ADD").pod("kube-system", "coredns-0");
        assert_eq!(exempt.succeed().unwrap().unwrap(), sandbox.netconf["prevResult"]);
    }
}
