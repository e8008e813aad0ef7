//! A node's directories, the image's plugin and the kubelet's volume, and the installer that works on them.

mod installer;
mod look;
mod sample;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use evergreen_test_support::kubelet::Volume;

use self::sample::PLUGIN;
pub use self::{
    installer::Installer,
    look::{mode, settle},
    sample::{CA, CALICO, NETCONF, entry},
};

/// The time limit of a wait, before the factor; generous, since the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A node below a temporary directory, which is removed on drop.
pub struct Node {
    root: PathBuf,
    pub volume: Volume,
    variables: BTreeMap<String, String>,
}

impl Node {
    /// Returns a node with empty directories, a plugin in the image, and a token and a CA in the volume.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("evergreen-node-{}-{count}", std::process::id()));
        for dir in ["host/opt/cni/bin", "host/etc/cni/net.d", "image"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        let volume = Volume::create(
            &root.join("serviceaccount"),
            &[
                ("token", b"token-1"),
                ("ca.crt", CA.as_bytes()),
                ("namespace", b"linkerd-cni"),
            ],
        )
        .unwrap();
        let node = Self {
            variables: BTreeMap::new(),
            volume,
            root,
        };
        node.image_file("evergreen-cni", PLUGIN.as_bytes());
        let below = |name: &str| node.root.join(name).to_str().unwrap().to_owned();
        let (host, image, token) = (below("host"), below("image"), below("serviceaccount/token"));
        node.with("CONTAINER_MOUNT_PREFIX", &host)
            .with("CONTAINER_CNI_BIN_DIR", &image)
            .with("CNI_NETWORK_CONFIG", NETCONF)
            .with("KUBE_TOKEN_FILE", &token)
            .with("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            // Nothing listens on this port of the loopback interface.
            .with("KUBERNETES_SERVICE_PORT", "9")
            .with("EVERGREEN_WAIT_SECONDS", "0")
            .with("EVERGREEN_ADMIN_PORT", "off")
            .with("EVERGREEN_TOKEN_SOURCE", "copy")
    }

    /// Makes the paths in the node's files valid on this machine. The test must put the plugin
    /// into the image.
    pub fn at_its_own_paths(self) -> Self {
        fs::remove_file(self.path("image/evergreen-cni")).unwrap();
        let below = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let (bin, net) = (below("host/opt/cni/bin"), below("host/etc/cni/net.d"));
        self.with("CONTAINER_MOUNT_PREFIX", "")
            .with("DEST_CNI_BIN_DIR", &bin)
            .with("DEST_CNI_NET_DIR", &net)
    }

    /// Sets a variable of the installer.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Unsets a variable of the installer.
    pub fn without(mut self, name: &str) -> Self {
        self.variables.remove(name);
        self
    }

    /// Adds a file to the net dir.
    pub fn with_network(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.net(name), content).unwrap();
        self
    }

    /// Returns a path below the node's root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the path of a file in the net dir.
    pub fn net(&self, name: &str) -> PathBuf {
        self.root.join("host/etc/cni/net.d").join(name)
    }

    /// Returns the path of a file in the bin dir.
    pub fn bin(&self, name: &str) -> PathBuf {
        self.root.join("host/opt/cni/bin").join(name)
    }

    /// Puts an executable file into the image.
    pub fn image_file(&self, name: &str, content: &[u8]) {
        let path = self.root.join("image").join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Rotates the volume to this token and CA bundle.
    pub fn rotate(&mut self, token: &str, ca: &str) {
        let files: [(&str, &[u8]); 3] = [
            ("token", token.as_bytes()),
            ("ca.crt", ca.as_bytes()),
            ("namespace", b"linkerd-cni"),
        ];
        self.volume.write(&files).unwrap();
    }

    /// Returns the installer's command with its variables and no others.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evergreen-install"));
        command
            .args(arguments)
            .env_clear()
            .envs(&self.variables)
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null());
        command
    }

    /// Runs the installer to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs the installer, which must succeed, and returns its log.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{arguments:?}: {}\n{log}\n{}",
            output.status,
            self.show()
        );
        log
    }

    /// Runs the installer, which must fail with all these words in its log, and returns the log.
    pub fn fail(&self, arguments: &[&str], words: &[&str]) -> String {
        let output = self.run(arguments);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            output.status.code(),
            Some(1),
            "{arguments:?}\n{log}\n{}",
            self.show()
        );
        for word in words {
            assert!(log.contains(word), "{arguments:?}: no {word:?} in\n{log}");
        }
        log
    }

    /// Starts `run` in the background.
    pub fn start(&self) -> Installer {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let log = self
            .root
            .join(format!("log-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let child = self
            .command(&["run"])
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Installer::new(child, log)
    }

    /// Returns the log of the installer that was started last.
    pub fn newest_log(&self) -> String {
        let newest = self.logs().into_iter().max_by_key(|(number, _)| *number);
        newest.map(|(_, log)| log).unwrap_or_default()
    }

    /// Returns whether any installer's log contains these words.
    pub fn logs_contain(&self, words: &str) -> bool {
        self.logs().iter().any(|(_, log)| log.contains(words))
    }

    fn logs(&self) -> Vec<(u32, String)> {
        let names = fs::read_dir(&self.root)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap());
        let numbers = names.filter_map(|n| n.strip_prefix("log-")?.parse().ok());
        numbers
            .map(|n: u32| (n, fs::read_to_string(self.root.join(format!("log-{n}"))).unwrap()))
            .collect()
    }

    /// Starts `run` and waits until our entry is in this file.
    pub fn start_and_wait_for(&self, network: &str) -> Installer {
        let mut installer = self.start();
        installer.until(self, "the entry is present", || self.has_entry(network));
        installer
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
