//! Bad input: wrong settings fail before the node is changed, and a neighbour's broken file never
//! blocks the rest.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use crate::node::{CALICO, Node, settle};

#[test]
fn wrong_configuration_fails_before_any_change() {
    for (name, value, words) in [
        (
            "CNI_NETWORK_CONFIG",
            "{bad",
            &["netconf template", "not JSON"][..],
        ),
        (
            "CNI_NETWORK_CONFIG",
            "",
            &["CNI_NETWORK_CONFIG", "CNI_NETWORK_CONFIG_FILE"],
        ),
        ("CNI_NETWORK_CONFIG", "{}", &["no `type`"]),
        (
            "CNI_NETWORK_CONFIG",
            r#"{"type":"../../sbin/init"}"#,
            &["plain file name"],
        ),
        (
            "KUBERNETES_SERVICE_HOST",
            "",
            &["KUBERNETES_SERVICE_HOST", "kubelet"],
        ),
        ("KUBERNETES_SERVICE_PORT", "https", &["KUBERNETES_SERVICE_PORT"]),
        ("DEST_CNI_NET_DIR", "net.d", &["DEST_CNI_NET_DIR", "absolute"]),
        (
            "CONTAINER_CNI_BIN_DIR",
            "/does/not/exist",
            &["CONTAINER_CNI_BIN_DIR", "/does/not/exist"],
        ),
        ("SLEEP", "perhaps", &["SLEEP", "perhaps"]),
    ] {
        let node = Node::new()
            .with_network("10-calico.conflist", CALICO)
            .with(name, value);
        let before = node.snapshot();
        for command in [&["once"][..], &["run"], &[]] {
            if name == "SLEEP" && !command.is_empty() {
                continue;
            }
            node.fail(command, words);
            assert_eq!(node.snapshot(), before, "{name}={value:?} {command:?}");
        }
    }
}

#[test]
fn template_variable_overrides_template_file() {
    let file_only = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .without("CNI_NETWORK_CONFIG");
    fs::write(file_only.path("netconf"), r#"{"type":"linkerd-cni"}"#).unwrap();
    let path = file_only.path("netconf");
    file_only.succeed(&["once", "--cni-network-config-file", path.to_str().unwrap()]);
    assert!(file_only.has_entry("10-calico.conflist"));

    let both = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("CNI_NETWORK_CONFIG_FILE", "/does/not/exist");
    let log = both.succeed(&["once"]);
    assert!(log.contains("CNI_NETWORK_CONFIG_FILE ignored"), "{log}");
    assert!(both.has_entry("10-calico.conflist"));
}

#[test]
fn once_on_empty_directory_reports_missing_network() {
    let node = Node::new();
    node.fail(&["once"], &["/etc/cni/net.d", "no network yet"]);
    // Everything but the entry is installed, so the next attempt has less to do.
    assert!(node.bin("linkerd-cni").exists());
    let waits = Node::new().with("EVERGREEN_WAIT_SECONDS", "20");
    let mut child = waits.command(&["once"]).spawn().unwrap();
    fs::write(waits.net("10-calico.conflist"), CALICO).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(waits.has_entry("10-calico.conflist"));
}

#[test]
fn sleep_false_installs_once_and_exits() {
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("SLEEP", "false");
    node.succeed(&[]);
    assert!(node.has_entry("10-calico.conflist"));
}

#[test]
fn missing_directories_are_named_with_cure() {
    for name in ["DEST_CNI_NET_DIR", "DEST_CNI_BIN_DIR"] {
        let missing = Node::new().with(name, "/var/lib/nowhere");
        missing.fail(&["once"], &["/var/lib/nowhere", "does not exist", "mounted"]);
        let file = Node::new().with(name, "/etc/a-file");
        fs::write(file.path("host/etc/a-file"), "").unwrap();
        file.fail(&["once"], &["/etc/a-file", "is a file"]);
    }
}

#[test]
fn symlinked_net_dir_is_used() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    std::os::unix::fs::symlink("cni/net.d", node.path("host/etc/link")).unwrap();
    node.succeed(&["once", "--dest-cni-net-dir", "/etc/link"]);
    assert!(node.has_entry("10-calico.conflist"));
}

#[test]
fn named_pipe_does_not_block() {
    for name in ["00-pipe.conflist", ".10-calico.conflist.1-1-0.evergreen-tmp"] {
        let node = Node::new().with_network("10-calico.conflist", CALICO);
        let made = Command::new("mkfifo").arg(node.net(name)).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo {name}");
        node.succeed(&["once"]);
        assert!(node.has_entry("10-calico.conflist"), "{name}");
    }
}

#[test]
fn invalid_neighbours_are_reported_and_skipped() {
    for (name, content) in [
        ("00-empty.conf", &b""[..]),
        ("01-half.conflist", b"{\"name\":"),
        ("02-other.conf", b"{\"foo\":1}"),
        ("03-ini.conf", b"[main]\nplugins=keyfile"),
        ("04-list.conf", CALICO.as_bytes()),
        (
            "05-bom.conflist",
            b"\xef\xbb\xbf{\"name\":\"n\",\"plugins\":[{\"type\":\"a\"}]}",
        ),
        ("99-late.conf", b""),
    ] {
        let node = Node::new()
            .with_network("20-calico.conflist", CALICO)
            .with_network(name, content);
        settle(&node.net(name));
        let log = node.succeed(&["once"]);
        assert!(node.has_entry("20-calico.conflist"), "{name}: {log}");
        assert_eq!(fs::read(node.net(name)).unwrap(), content, "{name}");
        assert!(log.contains(name), "{name} is not named in\n{log}");
        node.succeed(&["uninstall"]);
        assert_eq!(
            fs::read_to_string(node.net("20-calico.conflist")).unwrap(),
            CALICO
        );
    }
}

#[test]
fn unusual_valid_neighbours_get_entry_and_keep_bytes() {
    let big = format!(
        r#"{{"name":"n","note":"{}","plugins":[{{"type":"a"}}]}}"#,
        "x".repeat(10 << 20)
    );
    let cases: [(&str, &[u8]); 4] = [
        (
            "not-utf8.conflist",
            b"{\"name\":\"n\",\"note\":\"\xff\xfe\",\"plugins\":[{\"type\":\"a\"}]}",
        ),
        (
            "twice.conflist",
            br#"{"name":"n","plugins":[],"plugins":[{"type":"b","type":"a"}]}"#,
        ),
        ("big.conflist", big.as_bytes()),
        (".hidden.conflist", CALICO.as_bytes()),
    ];
    for (name, content) in cases {
        let node = Node::new().with_network(name, content);
        node.succeed(&["once"]);
        let with = fs::read(node.net(name)).unwrap();
        assert!(String::from_utf8_lossy(&with).contains("linkerd-cni"), "{name}");
        node.succeed(&["uninstall"]);
        assert!(
            fs::read(node.net(name)).unwrap() == content,
            "{name} is not as it was"
        );
    }
}

#[test]
fn broken_plugin_is_never_installed() {
    for (content, words) in [
        (
            &b"#!/bin/sh\nexit 3\n"[..],
            &["does not run on this node", "exit status: 3"][..],
        ),
        (b"\x7fELF not really", &["does not run on this node"]),
        (
            b"#!/bin/sh\necho hello\n",
            &["does not run on this node", "hello"],
        ),
    ] {
        let node = Node::new().with_network("10-calico.conflist", CALICO);
        node.image_file("evergreen-cni", content);
        fs::write(node.bin("linkerd-cni"), "the good one").unwrap();
        node.fail(&["once"], words);
        assert_eq!(
            fs::read_to_string(node.net("10-calico.conflist")).unwrap(),
            CALICO
        );
        assert_eq!(
            fs::read_to_string(node.bin("linkerd-cni")).unwrap(),
            "the good one"
        );
    }
}

#[test]
fn every_image_file_is_installed() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    node.image_file("helper", b"#!/bin/sh\n");
    let before = node.snapshot();
    node.succeed(&["once"]);
    assert_eq!(fs::read(node.bin("helper")).unwrap(), b"#!/bin/sh\n");
    assert_eq!(
        fs::metadata(node.bin("helper")).unwrap().permissions().mode() & 0o7777,
        0o755
    );
    assert!(node.bin("linkerd-cni").exists() && !node.bin("evergreen-cni").exists());
    node.succeed(&["uninstall"]);
    assert_eq!(node.snapshot(), before);
}

#[test]
fn old_templates_never_leak_token_into_conflist() {
    let template = r#"{"name":"linkerd-cni","type":"linkerd-cni","log_level":"info",
        "policy":{"type":"k8s","k8s_api_root":"https://__KUBERNETES_SERVICE_HOST__:__KUBERNETES_SERVICE_PORT__",
                  "k8s_auth_token":"__SERVICEACCOUNT_TOKEN__"},
        "kubernetes":{"kubeconfig":"__KUBECONFIG_FILEPATH__"},"linkerd":{"iptables-mode":"$IPTABLES_MODE"}}"#;
    let node = Node::new()
        .with_network("10-calico.conflist", CALICO)
        .with("CNI_NETWORK_CONFIG", template);
    node.succeed(&["once"]);
    let text = fs::read_to_string(node.net("10-calico.conflist")).unwrap();
    for word in ["token-1", "__", "IPTABLES"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}
