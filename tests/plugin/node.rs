//! A node's files as the installer writes them, in a temporary folder: kubeconfig, token, CA bundle.

use std::{
    fs,
    io::{Write, stderr},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use evergreen_kube::{
    Client, Error, Pod,
    deadline::Deadline,
    log::{Component, Level, Log},
};
use evergreen_test_support::{api::Api, netns::Namespace, pki::Pki, run::CniCall};
use serde_json::{Value, json};

/// The plugin under test.
pub const PLUGIN: &str = env!("CARGO_BIN_EXE_evergreen-cni");
/// The ServiceAccount the tokens belong to.
pub const ACCOUNT: &str = "system:serviceaccount:linkerd-cni:linkerd-cni";
/// The API path of the pod `shop/web-0`, the fixture `meshed`.
pub const POD: &str = "/api/v1/namespaces/shop/pods/web-0";

/// The folder with the files, and the API server the kubeconfig points to.
pub struct Node {
    pub api: Api,
    pub pki: Pki,
    pub dir: PathBuf,
}

impl Node {
    /// A node with a valid token and an API server that knows the pod `shop/web-0`.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("evergreen-kube-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let pki = Pki::new();
        let api = Api::start(&pki);
        api.put_pod("shop", "web-0", pod("meshed"));
        let node = Self { api, pki, dir };
        node.write("ca.crt", node.pki.ca.pem());
        node.rotate();
        node.write_kubeconfig(&node.kubeconfig());
        node
    }

    /// The kubeconfig the installer writes.
    pub fn kubeconfig(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Config", "current-context": "linkerd-cni-context",
            "clusters": [{"name": "local", "cluster": {"server": self.api.url(), "certificate-authority": "ca.crt"}}],
            "users": [{"name": "linkerd-cni", "user": {"tokenFile": "token"}}],
            "contexts": [{"name": "linkerd-cni-context", "context": {"cluster": "local", "user": "linkerd-cni"}}]})
    }

    /// The kubeconfig with another cluster.
    pub fn with_cluster(&self, cluster: Value) -> Value {
        let mut config = self.kubeconfig();
        config["clusters"][0]["cluster"] = cluster;
        config
    }

    /// The kubeconfig with another user.
    pub fn with_user(&self, user: Value) -> Value {
        let mut config = self.kubeconfig();
        config["users"][0]["user"] = user;
        config
    }

    pub fn write_kubeconfig(&self, config: &Value) {
        self.write("kubeconfig", &config.to_string());
    }

    /// Writes a file atomically, as the installer does.
    pub fn write(&self, name: &str, content: &str) {
        let temporary = self.dir.join(format!(".{name}.new"));
        fs::write(&temporary, content).unwrap();
        fs::rename(temporary, self.path(name)).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a new token that the API server accepts, and returns it.
    pub fn rotate(&self) -> String {
        let token = self.api.mint("linkerd-cni", "linkerd-cni", None, 3600);
        self.write("token", &token);
        token
    }

    /// Gets the pod with a deadline of ten seconds.
    pub fn ask(&self) -> Result<Pod, Error> {
        self.ask_within(Duration::from_secs(10))
    }

    pub fn ask_within(&self, time: Duration) -> Result<Pod, Error> {
        self.client(time)?.pod("shop", "web-0", None)
    }

    /// A netconf that names this node's kubeconfig, with these addresses in prevResult.
    pub fn netconf(&self, addresses: &[&str]) -> Value {
        let ips: Vec<Value> = addresses
            .iter()
            .map(|address| json!({"address": address}))
            .collect();
        json!({"cniVersion": "1.1.0", "name": "net", "type": "evergreen-cni",
            "kubernetes": {"kubeconfig": self.path("kubeconfig")},
            "prevResult": {"cniVersion": "1.1.0", "ips": ips}})
    }

    /// Runs ADD with a deadline of one second, asserts its failure, and returns the error object as text.
    pub fn failing_add(&self) -> String {
        let mut netconf = self.netconf(&["10.0.0.7/24"]);
        netconf["evergreen"] = json!({"deadline-seconds": 1});
        let error = call("ADD", &Namespace::new(), &netconf).fail().unwrap();
        error.to_string()
    }

    /// Gives the pod the annotation of a manual injection, after which the plugin also reads the namespace.
    pub fn put_manually_injected_pod(&self) {
        let mut injected = pod("meshed");
        injected["metadata"]["annotations"]["linkerd.io/created-by"] = json!("linkerd/cli x");
        self.api.put_pod("shop", "web-0", injected);
    }

    pub fn client(&self, time: Duration) -> Result<Client, Error> {
        open(&self.path("kubeconfig"), time)
    }
}

pub fn open(kubeconfig: &Path, time: Duration) -> Result<Client, Error> {
    Client::open(
        kubeconfig,
        Deadline::after(time),
        Log::new(Component::Plugin, Level::Warn),
    )
}

/// A call for the pod `shop/web-0` in this namespace.
pub fn call(verb: &str, namespace: &Namespace, netconf: &Value) -> CniCall {
    CniCall::new(PLUGIN, verb, namespace.path())
        .pod("shop", "web-0")
        .netconf(netconf)
}

/// Prints a count or a duration past the test harness, which shows `println!` only when a test fails.
pub fn report(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// A pod from `tests/fixtures/pods`.
pub fn pod(name: &str) -> Value {
    let path = format!(
        "{}/../tests/fixtures/pods/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
