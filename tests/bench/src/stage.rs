//! The fixture of all cases: an API server with some pods, a node's files, and the binaries.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, Permissions},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use evergreen_test_support::{
    api::{Answer, Api, Pace},
    netns::Namespace,
    pki::Pki,
    run::CniCall,
};
use serde_json::{Value, json};

const TOKEN: &str = "a-token-of-the-usual-length-is-about-nine-hundred-bytes";
/// A run that takes longer is ended and counts as an error.
const TIMEOUT_SECONDS: &str = "60";

/// The API server, the files, the binaries.
pub struct Stage {
    /// The API server, which counts requests.
    pub api: Api,
    /// The minimal baseline program.
    pub baseline: PathBuf,
    timeout: PathBuf,
    plugin: PathBuf,
    peer: Option<PathBuf>,
    path: OsString,
    files: PathBuf,
}

/// The program that a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The plugin of this repository.
    Plugin,
    /// The binary that `PEER` names.
    Peer,
}

impl Stage {
    /// Starts the API server and writes kubeconfigs, tokens and the CA.
    #[expect(
        clippy::disallowed_methods,
        reason = "the children get the PATH of this process"
    )]
    pub fn new(dist: &Path, peer: Option<PathBuf>) -> Result<Self> {
        let pki = Pki::new();
        let api = Api::start(&pki);
        let token = TOKEN.repeat(16);
        api.accept_token(&token, "system:serviceaccount:linkerd-cni:linkerd-cni");
        fill(&api)?;
        let files = env::temp_dir().join(format!("evergreen-bench-{}", std::process::id()));
        fs::create_dir_all(&files)?;
        let copied = |name: &str| copy(&dist.join(name), &files.join(name));
        let path = env::var_os("PATH").unwrap_or_default();
        let stage = Self {
            baseline: copied("evergreen-baseline")?,
            plugin: copied("evergreen-cni")?,
            timeout: find("timeout", &path)?,
            peer: peer
                .map(|peer| copy(&peer, &files.join("linkerd-cni")))
                .transpose()?,
            path,
            api,
            files,
        };
        fs::write(stage.file("token"), &token)?;
        fs::write(stage.file("token-unknown"), token.replace("usual", "other"))?;
        fs::write(stage.file("ca.crt"), pki.ca.pem())?;
        // A port that was just closed, so connections are refused.
        let closed = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        for (name, server, token) in [
            ("kubeconfig", stage.api.url(), "token"),
            ("kubeconfig-401", stage.api.url(), "token-unknown"),
            ("kubeconfig-refused", format!("https://{closed}"), "token"),
        ] {
            let text = stage.kubeconfig(&server, token).to_string();
            fs::write(stage.file(name), text)?;
        }
        Ok(stage)
    }

    /// Returns the path of a file of the node.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }

    /// Returns the folder of those files.
    pub fn folder(&self) -> &Path {
        &self.files
    }

    /// Returns the binary of a program; the plugin if there is no peer.
    pub fn binary(&self, program: Program) -> &Path {
        match (program, &self.peer) {
            (Program::Peer, Some(peer)) => peer,
            _ => &self.plugin,
        }
    }

    /// Finds a program of this machine.
    pub fn find(&self, program: &str) -> Result<PathBuf> {
        find(program, &self.path)
    }

    /// Returns the command words of a time limit.
    pub fn bounded(&self) -> Vec<&OsStr> {
        let words = ["-k", "5", TIMEOUT_SECONDS].map(OsStr::new);
        [self.timeout.as_os_str()].into_iter().chain(words).collect()
    }

    /// Returns the command words that start the minimal baseline program, which measures other programs.
    pub fn clock(&self) -> Vec<&OsStr> {
        let mut words = self.bounded();
        words.push(self.baseline.as_os_str());
        words
    }

    /// Builds a call as containerd makes it, at the end of a chain.
    pub fn call(&self, program: Program, verb: &str, netns: &Namespace) -> CniCall {
        CniCall::new(self.binary(program), verb, netns.path())
            .env("PATH", &self.path)
            .netconf(&self.netconf(Value::Null))
    }

    /// Returns the netconf of Linkerd's chart, with the runtime's annotations.
    pub fn netconf(&self, annotations: Value) -> Value {
        json!({
            "cniVersion": "1.1.0", "name": "node-net", "type": "linkerd-cni", "log_level": "info",
            "kubernetes": {"kubeconfig": self.file("kubeconfig")},
            "linkerd": {
                "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
                "inbound-ports-to-ignore": ["4190", "4191"], "outbound-ports-to-ignore": ["4567", "4568"],
                "iptables-mode": "nft"
            },
            "runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations},
            "prevResult": {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": "/run/netns/x"}],
                           "ips": [{"address": "10.1.0.5/24", "interface": 0}], "routes": [{"dst": "0.0.0.0/0"}]}
        })
    }

    /// Returns the netconf for a dual-stack pod.
    pub fn netconf_of_two_families(&self) -> Value {
        let mut netconf = self.netconf(Value::Null);
        netconf["linkerd"]["ipv6"] = true.into();
        netconf["prevResult"]["ips"] = json!([{"address": "10.1.0.5/24", "interface": 0},
                                              {"address": "fd00:10:1::5/64", "interface": 0}]);
        netconf
    }

    fn kubeconfig(&self, server: &str, token: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "linkerd-cni-context",
            "clusters": [{"name": "local", "cluster": {
                "server": server, "certificate-authority": self.file("ca.crt")}}],
            "users": [{"name": "linkerd-cni", "user": {"tokenFile": self.file(token)}}],
            "contexts": [{"name": "linkerd-cni-context", "context": {"cluster": "local", "user": "linkerd-cni"}}]
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// Adds pods to namespace `shop`, and a pod with a delayed answer to each of `far-50` and `far-200`.
fn fill(api: &Api) -> Result<()> {
    for (name, file) in [
        ("meshed", "meshed.json"),
        ("plain", "plain.json"),
        ("native", "native-sidecar.json"),
    ] {
        api.put_pod("shop", name, fixture(file)?);
    }
    api.put_namespace("shop", json!({}));
    let ports = |from: u16| -> String {
        let ports: Vec<_> = (0..40).map(|n| (from + 10 * n).to_string()).collect();
        ports.join(",")
    };
    let subnets: Vec<_> = (0..10).map(|n| format!("10.{n}.0.0/16")).collect();
    let mut many = fixture("meshed.json")?;
    many["metadata"]["annotations"]["config.linkerd.io/skip-inbound-ports"] = ports(5001).into();
    many["metadata"]["annotations"]["config.linkerd.io/skip-outbound-ports"] = ports(6001).into();
    many["metadata"]["annotations"]["config.linkerd.io/skip-subnets"] = subnets.join(",").into();
    api.put_pod("shop", "many", many);
    for (namespace, pause) in [("far-50", 50), ("far-200", 200)] {
        let path = format!("/api/v1/namespaces/{namespace}");
        let about = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": namespace}});
        let mut pod = fixture("meshed.json")?;
        pod["metadata"]["namespace"] = namespace.into();
        pod["metadata"]["name"] = "meshed".into();
        for (path, object) in [(format!("{path}/pods/meshed"), pod), (path, about)] {
            let late = Answer::json(200, &object).with_pace(Pace::After(Duration::from_millis(pause)));
            api.set_answer("GET", &path, late);
        }
    }
    Ok(())
}

/// Copies a binary in one write. The page cache's view of a file changes a start by a fifth or more, so all binaries must
/// be equally fresh. A missing binary is not an error here: `--stages` needs no baseline.
fn copy(from: &Path, to: &Path) -> Result<PathBuf> {
    if !from.is_file() {
        return Ok(from.to_owned());
    }
    let program = fs::read(from).with_context(|| format!("read {}", from.display()))?;
    fs::write(to, program)?;
    fs::set_permissions(to, Permissions::from_mode(0o755))?;
    Ok(to.to_owned())
}

fn find(program: &str, path: &OsStr) -> Result<PathBuf> {
    env::split_paths(path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .with_context(|| format!("no {program} in PATH; install its package"))
}

fn fixture(name: &str) -> Result<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/pods")
        .join(name);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}
