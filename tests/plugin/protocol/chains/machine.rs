//! A node in its own network namespace, where the reference library's `cnitool` runs plugin chains.

use std::{
    fs,
    path::{Path, PathBuf},
};

use evergreen_test_support::{
    netns::Namespace,
    run::{cnitool, with_cni_cache},
};
use serde_json::{Value, json};

use crate::node::{Node, PLUGIN};

/// The current reference library, and the oldest one whose `cnitool` supports CNI_ARGS.
pub(super) const LIBRARIES: [Library; 2] =
    [Library("cnitool", "v1.3.0"), Library("cnitool-oldest", "v0.6.0")];
/// The directory of Debian's reference plugins.
const NEIGHBOURS: &str = "/usr/lib/cni";
/// The pods' gateway, on the bridge.
pub(super) const GATEWAY: &str = "10.88.0.1";
/// An address of the node outside every pod subnet.
pub(super) const WORLD: &str = "203.0.113.5";

/// A `cnitool`: its name below `target/tools`, and the version of the reference library it is built with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Library(pub(super) &'static str, pub(super) &'static str);

/// A node: its network namespace, its API server and files, its CNI configuration.
pub(super) struct Machine {
    pub(super) host: Namespace,
    /// None only while it is dropped.
    node: Option<Node>,
    library: PathBuf,
}

/// The outcome of one call of `cnitool`.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) succeeded: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

// === impl Machine ===

impl Machine {
    /// A node without a CNI network.
    pub(super) fn new(library: Library) -> Self {
        let library = cnitool(library.0, library.1);
        let bridge = Path::new(NEIGHBOURS).join("bridge");
        assert!(
            bridge.is_file(),
            "no {}: apt-get install containernetworking-plugins",
            bridge.display()
        );
        let host = Namespace::new();
        host.ip(&format!("address add {WORLD}/32 dev lo"));
        // The API server listens in the node's namespace, where the plugins run.
        let node = host.run(Node::new);
        for folder in ["net.d", "cache", "ipam"] {
            fs::create_dir(node.path(folder)).expect("create a temporary folder");
        }
        Self {
            host,
            node: Some(node),
            library,
        }
    }

    pub(super) fn node(&self) -> &Node {
        self.node.as_ref().expect("the node exists until drop")
    }

    /// Stops the API server.
    pub(super) fn pause_api(&mut self) {
        let node = self.node.as_mut().expect("the node exists until drop");
        self.host.run(|| node.api.pause());
    }

    /// Evergreen's entry in a list of plugins.
    pub(super) fn ours(&self) -> Value {
        json!({"type": "evergreen-cni", "log_level": "info", "kubernetes": {"kubeconfig": self.node().path("kubeconfig")},
               "capabilities": {"io.kubernetes.cri.pod-annotations": true},
               "linkerd": {"inbound-ports-to-ignore": ["4190-4191"], "ipv6": true}})
    }

    /// The bridge that creates the pod's interface, with an address in 10.`number`.0.0/24 and optionally in
    /// `fd00:number::/64`.
    pub(super) fn bridge(&self, number: u8, ipv6: bool) -> Value {
        let mut ranges = vec![json!([{"subnet": format!("10.{number}.0.0/24")}])];
        let mut routes = vec![json!({"dst": "0.0.0.0/0"})];
        if ipv6 {
            ranges.push(json!([{"subnet": format!("fd00:{number}::/64")}]));
            routes.push(json!({"dst": "::/0"}));
        }
        json!({"type": "bridge", "bridge": format!("cni{number}"), "isGateway": true, "ipMasq": true, "hairpinMode": true,
               "ipam": {"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": self.node().path("ipam")}})
    }

    /// Writes a conflist.
    pub(super) fn set_network(&self, name: &str, version: &str, plugins: &[Value]) {
        let list = json!({"cniVersion": version, "name": name, "plugins": plugins});
        let path = self.node().path("net.d").join(format!("{name}.conflist"));
        fs::write(path, list.to_string()).expect("write a temporary file");
    }

    /// Runs `cnitool VERB NETWORK POD` for the pod `shop/web-0`, with additional variables.
    pub(super) fn cnitool(
        &self,
        verb: &str,
        network: &str,
        pod: &Namespace,
        more: &[(&str, &str)],
    ) -> Called {
        let folder = Path::new(PLUGIN)
            .parent()
            .expect("the plugin has a parent folder");
        let plugins = format!("{NEIGHBOURS}:{}", folder.display());
        let output = self.host.run(|| {
            with_cni_cache(&self.node().path("cache"), &self.library)
                .args([verb, network])
                .arg(pod.path())
                .env_clear()
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .env("CNI_PATH", plugins)
                .env("NETCONFPATH", self.node().path("net.d"))
                .env(
                    "CNI_ARGS",
                    "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0",
                )
                .envs(more.iter().copied())
                .output()
        });
        let output = output.unwrap_or_else(|e| panic!("cannot run unshare: {e}"));
        Called {
            succeeded: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs `cnitool`, asserts success, and returns the result if there is one.
    pub(super) fn succeed(&self, verb: &str, network: &str, pod: &Namespace, more: &[(&str, &str)]) -> Value {
        let called = self.cnitool(verb, network, pod, more);
        assert!(
            called.succeeded,
            "cnitool {verb} {network}: {called:#?}\n{}",
            pod.nft_list()
        );
        serde_json::from_str(&called.stdout).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let node = self.node.take();
        // The server stops by connecting to itself, so it must be dropped inside its namespace.
        self.host.run(|| drop(node));
    }
}
