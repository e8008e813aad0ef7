//! A node's files as the installer leaves them, in a folder of the test's own: kubeconfig, token, CA bundle.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use evergreen_kube::{
    Client, Error, Pod,
    deadline::Deadline,
    log::{Component, Level, Log},
};
use evergreen_test_support::{api::Api, pki::Pki};
use serde_json::{Value, json};

/// The ServiceAccount our tokens are of.
pub const ACCOUNT: &str = "system:serviceaccount:linkerd-cni:linkerd-cni";
/// Where the meshed pod of the fixtures is.
pub const POD: &str = "/api/v1/namespaces/shop/pods/web-0";

/// A folder with the files, and the server they lead to.
pub struct Node {
    pub api: Api,
    pub pki: Pki,
    pub dir: PathBuf,
}

impl Node {
    /// A node with a good token of a server that has the pod `shop/web-0`.
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

    /// Writes a file as an installer does: whole, by a rename.
    pub fn write(&self, name: &str, content: &str) {
        let temporary = self.dir.join(format!(".{name}.new"));
        fs::write(&temporary, content).unwrap();
        fs::rename(temporary, self.path(name)).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A new token that the server accepts, in the token file; gives it back.
    pub fn rotate(&self) -> String {
        let token = self.api.mint("linkerd-cni", "linkerd-cni", None, 3600);
        self.write("token", &token);
        token
    }

    /// Asks for the pod with ten seconds' time.
    pub fn ask(&self) -> Result<Pod, Error> {
        self.ask_within(Duration::from_secs(10))
    }

    pub fn ask_within(&self, time: Duration) -> Result<Pod, Error> {
        self.client(time)?.pod("shop", "web-0", None)
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

/// A pod of the fixtures.
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
