//! `--help` and the command line.

use serde_json::Value;

use crate::node::{CALICO, Node};

#[test]
fn help_names_every_command_and_every_setting() {
    let node = Node::new();
    let general = String::from_utf8(node.run(&["--help"]).stdout).unwrap();
    for word in [
        "once",
        "run",
        "uninstall",
        "DEST_CNI_NET_DIR",
        "--dest-cni-net-dir",
        "KUBE_TOKEN_FILE",
        "--log-level",
        "--log-format",
    ] {
        assert!(general.contains(word), "no {word} in\n{general}");
    }
    for command in ["once", "run", "uninstall", "check"] {
        let output = node.run(&[command, "--help"]);
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.starts_with(&format!("Usage: evergreen-install {command}")),
            "{text}"
        );
        assert!(text.contains("CNI_NETWORK_CONFIG"), "{text}");
    }
    assert!(
        node.snapshot().len() <= 6,
        "help touches nothing:\n{}",
        node.show()
    );
}

#[test]
fn unknown_words_are_refused_by_name() {
    let node = Node::new();
    node.fail(&["--no-such-flag"], &["no-such-flag", "--help"]);
    node.fail(&["install"], &["install", "--help"]);
    node.fail(&["once", "run"], &["run", "--help"]);
    node.fail(&["once", "--log-level", "loud"], &["loud", "debug"]);
    node.fail(&["once", "--log-level"], &["log-level"]);
    node.fail(&["once", "--log-format", "xml"], &["xml", "json"]);
}

#[test]
fn json_log_has_one_object_a_line() {
    let node = Node::new().with_network("10-calico.conflist", CALICO);
    let mut messages = Vec::new();
    let flags = ["once", "--log-format", "json"];
    let failing = [&flags[..], &["--wait-seconds", "never"]].concat();
    for arguments in [&flags[..], &failing] {
        let log = node.run(arguments).stderr;
        for line in String::from_utf8(log).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["component"], "installer", "{line}");
            messages.push(line["msg"].as_str().unwrap().to_owned());
        }
    }
    assert!(messages.contains(&"file changed".to_owned()), "{messages:?}");
    assert_eq!(messages.last().unwrap(), "failed");
}
