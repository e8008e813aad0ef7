//! Scenarios of the crash test: the node at the start, and the command that is killed.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use crate::node::{CALICO, Node, settle};

/// A neighbour's plugin: returns a result for ADD and nothing else.
const NEIGHBOUR: &str = "#!/bin/sh\ncat >/dev/null\n\
    [ \"$CNI_COMMAND\" = ADD ] && echo '{\"cniVersion\":\"0.3.1\",\"interfaces\":[],\"ips\":[]}'\nexit 0\n";

/// A replacement for our plugin. For ADD it reads what ours must read first, and fails if it cannot. Small, because
/// it is copied a thousand times.
const PLUGIN: &str = r#"#!/bin/sh
if [ "$CNI_COMMAND" = VERSION ]; then
  echo '{"cniVersion":"1.0.0","supportedVersions":["0.3.1","1.0.0"]}'
  exit
fi
[ "$CNI_COMMAND" = ADD ] || exit 0
path() { sed -n "s,.*\"$1\": *\"\([^\"]*\)\".*,\1,p" | head -n 1; }
kubeconfig=$(path kubeconfig)
for file in "$kubeconfig" "$(path tokenFile < "$kubeconfig")" "$(path certificate-authority < "$kubeconfig")"; do
  [ -s "$file" ] && continue
  echo "{\"cniVersion\":\"0.3.1\",\"code\":100,\"msg\":\"nothing in $file\"}"
  exit 1
done
echo '{"cniVersion":"0.3.1","interfaces":[],"ips":[]}'
"#;

const SINGLE: &str = r#"{"cniVersion":"0.3.1","name":"k8s-pod-network","type":"calico"}"#;

/// One command on one kind of node.
pub struct Scenario {
    pub name: &'static str,
    /// Prepares a new node.
    pub before: fn(&Node),
    pub command: &'static str,
    /// The network works before the command, so it must work after any kill.
    pub works: bool,
}

pub const SCENARIOS: [Scenario; 12] = [
    Scenario {
        name: "install",
        before: |node| network(node, "10-calico.conflist", CALICO),
        command: "once",
        works: true,
    },
    Scenario {
        name: "install over a single plugin",
        before: |node| network(node, "10-calico.conf", SINGLE),
        command: "once",
        works: true,
    },
    Scenario {
        name: "restore",
        before: damaged,
        command: "once",
        works: true,
    },
    Scenario {
        name: "restore a damaged list of ours",
        before: damaged_list,
        command: "once",
        works: false,
    },
    Scenario {
        name: "upgrade",
        before: older,
        command: "once",
        works: true,
    },
    Scenario {
        name: "removal",
        before: |node| {
            network(node, "10-calico.conflist", CALICO);
            node.succeed(&["once"]);
        },
        command: "uninstall",
        works: true,
    },
    Scenario {
        name: "removal that restores a single plugin",
        before: |node| {
            network(node, "10-calico.conf", SINGLE);
            node.succeed(&["once"]);
        },
        command: "uninstall",
        works: true,
    },
    Scenario {
        name: "removal of a damaged list of ours",
        before: damaged_list,
        command: "uninstall",
        works: false,
    },
    Scenario {
        name: "install over a symlink",
        before: |node| link(node, "10-calico.conflist", CALICO),
        command: "once",
        works: true,
    },
    Scenario {
        name: "follow a changed symlink target",
        before: |node| {
            link(node, "10-calico.conflist", CALICO);
            node.succeed(&["once"]);
            fs::write(node.path("image-cni"), CALICO.replace("portmap", "calico")).unwrap();
        },
        command: "once",
        works: true,
    },
    Scenario {
        name: "removal that restores a symlink",
        before: |node| {
            link(node, "10-calico.conflist", CALICO);
            node.succeed(&["once"]);
        },
        command: "uninstall",
        works: true,
    },
    Scenario {
        name: "removal that restores a single plugin's symlink",
        before: |node| {
            link(node, "10-calico.conf", SINGLE);
            node.succeed(&["once"]);
        },
        command: "uninstall",
        works: true,
    },
];

fn network(node: &Node, name: &str, content: &str) {
    fs::write(node.net(name), content).unwrap();
}

/// Adds a network that is a symlink to a file of the node's image.
fn link(node: &Node, name: &str, content: &str) {
    let file = node.path("image-cni");
    fs::write(&file, content).unwrap();
    symlink(file, node.net(name)).unwrap();
}

fn damaged(node: &Node) {
    network(node, "10-calico.conflist", CALICO);
    node.succeed(&["once"]);
    network(node, "10-calico.conflist", CALICO);
    fs::remove_file(node.bin("linkerd-cni")).unwrap();
    fs::write(node.net("linkerd-cni.evergreen/token"), "").unwrap();
    fs::set_permissions(
        node.net("ZZZ-linkerd-cni-kubeconfig"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
}

fn damaged_list(node: &Node) {
    network(node, "10-calico.conf", SINGLE);
    node.succeed(&["once"]);
    fs::write(node.net("10-calico.conflist"), "").unwrap();
    settle(&node.net("10-calico.conflist"));
}

fn older(node: &Node) {
    network(node, "10-calico.conflist", CALICO);
    let older = node.path("older");
    fs::create_dir(&older).unwrap();
    executable(
        &older.join("evergreen-cni"),
        &format!("{PLUGIN}# an older build\n"),
    );
    let netconf =
        r#"{"type":"linkerd-cni","kubernetes":{"kubeconfig":"__KUBECONFIG_FILEPATH__"},"linkerd":{}}"#;
    let older = older.to_str().unwrap();
    node.succeed(&[
        "once",
        "--container-cni-bin-dir",
        older,
        "--cni-network-config",
        netconf,
    ]);
}

/// Returns a node whose files contain paths that are valid on this machine.
pub fn node() -> Node {
    let node = Node::new().at_its_own_paths();
    executable(&node.path("image/evergreen-cni"), PLUGIN);
    for name in ["calico", "portmap"] {
        executable(&node.bin(name), NEIGHBOUR);
    }
    node
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
