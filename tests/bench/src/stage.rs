//! What the cases play on: an API server that knows three pods, and a node's files for it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use evergreen_test_support::{api::Api, pki::Pki, run::CniCall};
use serde_json::{Value, json};
use std::ffi::OsStr;

use crate::measure;

const TOKEN: &str = "a-token-of-the-usual-length-is-about-nine-hundred-bytes";

/// The API server, the files, the binaries.
pub struct Stage {
    /// For counting what was asked.
    pub api: Api,
    /// The floor program.
    pub floor: PathBuf,
    plugin: PathBuf,
    files: PathBuf,
}

impl Stage {
    /// Starts the server and writes kubeconfig, token and CA.
    pub fn new(dist: &Path) -> Result<Self> {
        let pki = Pki::new();
        let api = Api::start(&pki);
        let token = TOKEN.repeat(16);
        api.accept_token(&token, "system:serviceaccount:linkerd-cni:linkerd-cni");
        for (name, file) in [("meshed", "meshed.json"), ("plain", "plain.json")] {
            api.put_pod("shop", name, fixture(file)?);
        }
        let files = std::env::temp_dir().join(format!("evergreen-bench-{}", std::process::id()));
        fs::create_dir_all(&files)?;
        let stage = Self {
            floor: dist.join("evergreen-floor"),
            plugin: dist.join("evergreen-cni"),
            api,
            files,
        };
        fs::write(stage.file("token"), token)?;
        fs::write(stage.file("ca.crt"), pki.ca.pem())?;
        fs::write(stage.file("kubeconfig"), stage.kubeconfig().to_string())?;
        Ok(stage)
    }

    /// A file of the node.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }

    /// The plugin's size in bytes.
    pub fn binary_size(&self) -> Result<u64> {
        measure::size(&self.plugin)
    }

    /// A call of the plugin as containerd makes it, at the end of a chain.
    pub fn call(&self, verb: &str, netns: impl AsRef<OsStr>) -> CniCall {
        CniCall::new(&self.plugin, verb, netns).netconf(&self.netconf(Value::Null))
    }

    /// The configuration of Linkerd's chart, with the runtime's annotations.
    pub fn netconf(&self, annotations: Value) -> Value {
        json!({
            "cniVersion": "1.1.0", "name": "node-net", "type": "linkerd-cni", "log_level": "info",
            "kubernetes": {"kubeconfig": self.file("kubeconfig")},
            "linkerd": {
                "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
                "inbound-ports-to-ignore": ["4190", "4191"], "outbound-ports-to-ignore": ["4567", "4568"]
            },
            "runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations},
            "prevResult": {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": "/run/netns/x"}],
                           "ips": [{"address": "10.1.0.5/24", "interface": 0}], "routes": [{"dst": "0.0.0.0/0"}]}
        })
    }

    fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "linkerd-cni-context",
            "clusters": [{"name": "local", "cluster": {
                "server": self.api.url(), "certificate-authority": self.file("ca.crt")}}],
            "users": [{"name": "linkerd-cni", "user": {"tokenFile": self.file("token")}}],
            "contexts": [{"name": "linkerd-cni-context", "context": {"cluster": "local", "user": "linkerd-cni"}}]
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

fn fixture(name: &str) -> Result<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/pods")
        .join(name);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}
