//! What the command line says of itself.

use crate::node::Node;

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
fn what_is_not_known_is_refused_by_name() {
    let node = Node::new();
    node.fail(&["--no-such-flag"], &["no-such-flag", "--help"]);
    node.fail(&["install"], &["install", "--help"]);
    node.fail(&["once", "run"], &["run", "--help"]);
    node.fail(&["once", "--log-level", "loud"], &["loud", "debug"]);
    node.fail(&["once", "--log-level"], &["log-level"]);
}
