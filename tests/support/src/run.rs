//! Our binaries, started as a runtime starts them: a clean environment, stdin from a pipe, stdout and stderr kept.

mod sys;
mod trace;

use std::{
    ffi::{OsStr, OsString},
    fmt,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub use self::trace::{Followed, Kill};

/// One CNI call to a plugin binary.
#[derive(Debug, Clone)]
pub struct CniCall {
    binary: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
}

/// What came of it.
#[derive(Debug)]
pub struct CniReply {
    /// 0 or 1; none when a signal ended it.
    pub exit_code: Option<i32>,
    /// As text.
    pub stdout: String,
    /// As text.
    pub stderr: String,
}

/// libcni's own tool, in the version that lies under this name in `target/tools`.
pub fn cnitool(name: &str, version: &str) -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let path = tools.join(name);
    assert!(
        path.is_file(),
        "no {}: scripts/test builds it, or: GOBIN=/tmp/tool go install \
         github.com/containernetworking/cni/cnitool@{version} && install -D /tmp/tool/cnitool target/tools/{name}",
        path.display()
    );
    path
}

/// A command that starts a tool built on libcni with `cache`, a folder that is there, for what it keeps of each attachment:
/// libcni knows no place for that but `/var/lib/cni`, and the machine's is not a test's.
pub fn with_cni_cache(cache: &Path, tool: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg(
            "mount -t tmpfs cache /var/lib && mkdir /var/lib/cni && mount --bind \"$0\" /var/lib/cni && exec \"$@\"",
        )
        .args([cache, tool]);
    command
}

/// The path of a binary of this workspace, built beside the running test.
///
/// # Panics
/// When it is not there: `cargo build --workspace` makes it.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let built = test
        .ancestors()
        .map(|dir| dir.join(name))
        .find(|path| path.is_file());
    built.unwrap_or_else(|| {
        panic!(
            "no {name} beside {}: run `cargo build --workspace` first",
            test.display()
        )
    })
}

impl CniCall {
    /// A call of `verb` with all that the protocol requires, for a sandbox at `netns`.
    pub fn new(binary: impl Into<PathBuf>, verb: &str, netns: impl AsRef<OsStr>) -> Self {
        Self::bare(binary)
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", "test-container")
            .env("CNI_NETNS", netns)
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", "/opt/cni/bin")
    }

    /// A call without any variable.
    pub fn bare(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: Vec::new(),
        }
    }

    /// Adds an argument, for programs that take some.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a variable, replacing an earlier value.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self = self.without(name);
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Takes a variable away.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self
    }

    /// Names the pod as containerd does.
    #[must_use]
    pub fn pod(self, namespace: &str, name: &str) -> Self {
        self.env("CNI_ARGS", format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};K8S_POD_INFRA_CONTAINER_ID=test-container"))
    }

    /// The network configuration.
    #[must_use]
    pub fn netconf(self, netconf: &Value) -> Self {
        self.stdin(netconf.to_string())
    }

    /// Stdin, whatever it is.
    #[must_use]
    pub fn stdin(mut self, stdin: impl Into<Vec<u8>>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Its variables, one `NAME=value` a line.
    pub fn environment_lines(&self) -> String {
        let line = |(name, value): &(OsString, OsString)| {
            format!("{}={}\n", name.to_string_lossy(), value.to_string_lossy())
        };
        self.environment.iter().map(line).collect()
    }

    /// What its stdin is.
    pub fn input(&self) -> &[u8] {
        &self.stdin
    }

    /// The command that this call runs, behind the words of another one, such as `strace -f`.
    pub fn command_under(&self, words: &[&OsStr]) -> Command {
        let mut words = words.iter().copied().chain([self.binary.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().cloned());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub fn run(&self) -> Result<CniReply> {
        self.run_under(&[])
    }

    /// Runs it to its end behind the words of another command.
    pub fn run_under(&self, words: &[&OsStr]) -> Result<CniReply> {
        let mut child = self
            .command_under(words)
            .spawn()
            .with_context(|| format!("starting {self}"))?;
        let mut pipe = child.stdin.take().context("no pipe to stdin")?;
        // On a thread of its own: a plugin may answer without reading, or read while it writes.
        let output = thread::scope(|scope| {
            scope.spawn(move || pipe.write_all(&self.stdin));
            child.wait_with_output()
        })?;
        Ok(CniReply::from(output))
    }

    /// Runs it and wants success: what it printed, none when it printed nothing.
    pub fn succeed(&self) -> Result<Option<Value>> {
        let reply = self.run()?;
        ensure!(
            reply.exit_code == Some(0),
            "expected success of {self}: {reply:?}"
        );
        match reply.stdout.is_empty() {
            true => Ok(None),
            false => Ok(Some(reply.document()?)),
        }
    }

    /// Runs it and wants a failure: the error object, checked for its shape.
    pub fn fail(&self) -> Result<Value> {
        let reply = self.run()?;
        ensure!(
            reply.exit_code == Some(1),
            "expected exit code 1 of {self}: {reply:?}"
        );
        let error = reply.document()?;
        let shaped = error["code"].is_u64() && error["msg"].is_string() && error["cniVersion"].is_string();
        ensure!(shaped, "not a CNI error object from {self}: {reply:?}");
        Ok(error)
    }
}

impl fmt::Display for CniCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(f, "{}={:?} ", name.to_string_lossy(), value)?;
        }
        write!(
            f,
            "{} <<< {}",
            self.binary.display(),
            String::from_utf8_lossy(&self.stdin)
        )
    }
}

impl From<Output> for CniReply {
    fn from(output: Output) -> Self {
        Self {
            exit_code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl CniReply {
    /// The one JSON document on stdout.
    pub fn document(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout)
            .with_context(|| format!("stdout is not one JSON document: {self:?}"))
    }
}
