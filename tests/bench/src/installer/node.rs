//! A node for the installer: the host's and the image's directories, the kubelet's volume, an API server.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use evergreen_test_support::{
    api::{Api, Bound},
    http,
    kubelet::Volume,
    pki::Pki,
};
use serde_json::json;

/// A step that takes longer is an error.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The polling interval, and so the error of a measured time.
const POLL_EVERY: Duration = Duration::from_millis(1);
const POD: &str = "linkerd-cni-abcde";
const NETWORK: &str = r#"{"cniVersion":"0.3.1","name":"k8s-pod-network","plugins":[{"type":"calico"},{"type":"portmap","capabilities":{"portMappings":true}}]}"#;
const NETCONF: &str = r#"{"name":"linkerd-cni","type":"linkerd-cni","kubernetes":{"kubeconfig":"__KUBECONFIG_FILEPATH__"},"linkerd":{"incoming-proxy-port":4143,"outgoing-proxy-port":4140,"proxy-uid":2102}}"#;

/// The node, and the installer that runs on it.
pub struct Node {
    /// The API server, which counts requests.
    pub api: Api,
    root: PathBuf,
    volume: Volume,
    token: String,
    bundle: String,
    authority: String,
    another: String,
    installer: Option<Child>,
}

impl Node {
    /// A node with a primary network and a kubelet volume, whose pod has every permission.
    pub fn new(plugin: &Path) -> Result<Self> {
        let pki = Pki::new();
        let api = Api::start(&pki);
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"uid": "pod-1"}});
        api.put_pod("linkerd-cni", POD, pod);
        let daemonset =
            json!({"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": "linkerd-cni"}});
        api.put(
            "/apis/apps/v1/namespaces/linkerd-cni/daemonsets/linkerd-cni",
            daemonset,
        );
        api.put_node("node1", "node-1");
        let root = env::temp_dir().join(format!("evergreen-bench-node-{}", std::process::id()));
        for folder in ["host/opt/cni/bin", "host/etc/cni/net.d", "image"] {
            fs::create_dir_all(root.join(folder))?;
        }
        fs::write(root.join("host/etc/cni/net.d/10-calico.conflist"), NETWORK)?;
        fs::copy(plugin, root.join("image/evergreen-cni"))?;
        let token = mint(&api);
        let authority = pki.ca.pem().to_owned();
        let volume = Volume::create(&root.join("serviceaccount"), &files(&token, &authority))?;
        Ok(Self {
            api,
            root,
            volume,
            token,
            bundle: authority.clone(),
            authority,
            another: Pki::new().ca.pem().to_owned(),
            installer: None,
        })
    }

    /// Restarts the installer with this EVERGREEN_TOKEN_SOURCE and waits until it is ready.
    pub fn start(&mut self, installer: &Path, token_source: &str) -> Result<()> {
        self.stop();
        let log = File::create(self.log())?;
        let mut command = Command::new(installer);
        command
            .arg("run")
            .env_clear()
            .env("CONTAINER_MOUNT_PREFIX", self.root.join("host"))
            .env("CONTAINER_CNI_BIN_DIR", self.root.join("image"))
            .env("CNI_NETWORK_CONFIG", NETCONF)
            .env("KUBE_TOKEN_FILE", self.volume.path("token"))
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", self.api.address().port().to_string())
            .env("EVERGREEN_ADMIN_PORT", "0")
            .env("EVERGREEN_TOKEN_SOURCE", token_source)
            .env("NODE_NAME", "node1")
            .stdin(Stdio::null())
            .stderr(log);
        self.installer = Some(command.spawn().context("start the installer")?);
        self.until("the installer is ready", |node| {
            node.get("/readyz")
                .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
        })
    }

    /// Returns the installer's process ID.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.installer.as_ref().context("no installer runs")?.id())
    }

    /// Reads a credential file on the host.
    pub fn credential(&self, name: &str) -> Vec<u8> {
        let folder = self.root.join("host/etc/cni/net.d/linkerd-cni.evergreen");
        fs::read(folder.join(name)).unwrap_or_default()
    }

    /// Renews the pod's token as the kubelet does.
    pub fn rotate_token(&mut self) -> Result<String> {
        self.token = mint(&self.api);
        self.write()?;
        Ok(self.token.clone())
    }

    /// Adds a certificate to the cluster's bundle, or removes it again.
    pub fn rotate_bundle(&mut self) -> Result<String> {
        self.bundle = match self.bundle == self.authority {
            true => self.authority.clone() + &self.another,
            false => self.authority.clone(),
        };
        self.write()?;
        Ok(self.bundle.clone())
    }

    /// Polls until a condition holds.
    pub fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<()> {
        let start = Instant::now();
        while !holds(self) {
            ensure!(
                start.elapsed() < TIMEOUT,
                "timed out after {TIMEOUT:?} waiting until {what}\n{}",
                fs::read_to_string(self.log()).unwrap_or_default()
            );
            thread::sleep(POLL_EVERY);
        }
        Ok(())
    }

    /// Gets a path from the installer's HTTP server.
    pub fn get(&self, path: &str) -> Result<String> {
        let log = fs::read_to_string(self.log())?;
        let line = log.lines().find(|line| line.contains("serving probes"));
        let port = line.and_then(|line| line.rsplit(':').next()?.trim().parse::<u16>().ok());
        let port = port.context("the installer has not logged its port yet")?;
        Ok(http::get(port, path)?)
    }

    fn write(&mut self) -> Result<()> {
        Ok(self.volume.write(&files(&self.token, &self.bundle))?)
    }

    fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    fn stop(&mut self) {
        if let Some(mut installer) = self.installer.take() {
            let _ = installer.kill();
            let _ = installer.wait();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Mints a token bound to the pod.
fn mint(api: &Api) -> String {
    let pod = Bound {
        kind: "Pod".to_owned(),
        name: POD.to_owned(),
        uid: "pod-1".to_owned(),
    };
    api.mint("linkerd-cni", "linkerd-cni", Some(&pod), 3600)
}

fn files<'a>(token: &'a str, bundle: &'a str) -> [(&'static str, &'a [u8]); 3] {
    [
        ("token", token.as_bytes()),
        ("ca.crt", bundle.as_bytes()),
        ("namespace", b"linkerd-cni"),
    ]
}
