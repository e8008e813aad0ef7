//! libcni's record of each attachment on this node: a file `NETWORK-CONTAINER-INTERFACE` that contains the conflist the
//! sandbox was created from (`cachedInfo` of libcni/api.go, kind `cniCacheV1`, since libcni 0.8). containerd and CRI-O use
//! libcni's default directory. libcni writes a record after a successful ADD and removes it in DEL; a record is left over
//! when its network is renamed in between. This module only reads, and follows no symlink.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use evergreen_kube::{file, pod::PRIMARY_INTERFACE};
use serde::Deserialize;

use crate::node::conflist::Chain;

/// libcni's default results directory on the node.
pub const DEFAULT_DIR: &str = "/var/lib/cni/results";
/// The only kind that libcni writes.
const KIND: &str = "cniCacheV1";
/// Size limit: room for a pod's annotations (at most 256 KiB) and a network.
const MAX_SIZE: u64 = 2 << 20;
/// Limit of files: many times what a full node has. Older ones belong to pods that no longer exist.
const MAX_FILES: usize = 4000;

/// An attachment of a pod to a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The UID that the kubelet uses for the pod.
    pub uid: String,
    /// The ID of the sandbox.
    pub sandbox: String,
    /// When the record was written; a recreated sandbox has a later one.
    pub written: SystemTime,
    /// True for the attachment of the pod's primary interface.
    pub is_primary: bool,
    /// The conflist the sandbox was created from.
    pub chain: Chain,
}

/// Reads all valid records of a directory.
pub fn read(dir: &Path, ours: &str) -> Result<Vec<Record>> {
    let read = |path: PathBuf| {
        // Removed meanwhile, half written, or no record: the next pass reads it again.
        let (text, written) = open(&path).ok()?;
        parse(&text, written, ours)
    };
    Ok(newest(dir, MAX_FILES)?.into_iter().filter_map(read).collect())
}

/// Returns the newest files, so that an old record never decides about a pod. Skips loopback records, half of all files.
fn newest(dir: &Path, most: usize) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).context("read the directory")? {
        let entry = entry.context("read the directory")?;
        if !entry.file_name().as_encoded_bytes().ends_with(b"-lo") {
            let changed = entry.metadata().and_then(|m| m.modified());
            found.extend(changed.ok().map(|changed| (changed, entry.path())));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(most);
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Reads a regular file and its modification time.
fn open(path: &Path) -> io::Result<(Vec<u8>, SystemTime)> {
    let (text, found) = file::read(&file::open(path, libc::O_NOFOLLOW)?, MAX_SIZE)?;
    Ok((text, found.modified()?))
}

fn parse(text: &[u8], written: SystemTime, ours: &str) -> Option<Record> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Raw {
        kind: String,
        container_id: String,
        config: String,
        if_name: String,
        cni_args: Vec<(String, String)>,
    }
    let raw: Raw = serde_json::from_slice(text)
        .ok()
        .filter(|raw: &Raw| raw.kind == KIND)?;
    let (_, uid) = raw.cni_args.into_iter().find(|(name, _)| name == "K8S_POD_UID")?;
    let record = Record {
        uid,
        sandbox: raw.container_id,
        written,
        is_primary: raw.if_name == PRIMARY_INTERFACE,
        chain: Chain::read(&STANDARD.decode(raw.config).ok()?, ours)?,
    };
    Some(record).filter(|r| !r.uid.is_empty() && !r.sandbox.is_empty())
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, time::Duration};

    use serde_json::{Value, json};

    use super::*;
    use crate::scratch::Scratch;

    const LIST: &str =
        r#"{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"calico"},{"type":"linkerd-cni"}]}"#;

    fn text(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut record = json!({"kind": "cniCacheV1", "containerId": "sandbox-1", "config": STANDARD.encode(LIST),
            "ifName": "eth0", "networkName": "net", "netns": "/var/run/netns/cni-1",
            "cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_UID", "uid-1"], ["K8S_POD_NAME", "web-0"]],
            "capabilityArgs": {"io.kubernetes.cri.pod-annotations": {"a": "b"}}, "result": {"cniVersion": "1.0.0"}});
        change(&mut record);
        record.to_string().into_bytes()
    }

    fn parsed(change: impl FnOnce(&mut Value)) -> Option<Record> {
        parse(&text(change), SystemTime::UNIX_EPOCH, "linkerd-cni")
    }

    #[test]
    fn record_names_pod_sandbox_and_conflist() {
        let record = parsed(|_| {}).unwrap();
        assert_eq!(
            (&*record.uid, &*record.sandbox, record.is_primary),
            ("uid-1", "sandbox-1", true)
        );
        assert_eq!((&*record.chain.name, record.chain.with_us), ("net", true));
        assert!(!parsed(|r| r["ifName"] = json!("net1")).unwrap().is_primary);
        let without = STANDARD.encode(r#"{"name":"net","plugins":[{"type":"calico"}]}"#);
        assert!(!parsed(|r| r["config"] = json!(without)).unwrap().chain.with_us);
    }

    #[test]
    fn invalid_record_is_ignored() {
        assert_eq!(parsed(|r| r["kind"] = json!("cniCacheV2")), None);
        assert_eq!(
            parsed(|r| r["cniArgs"] = json!([["K8S_POD_NAME", "web-0"]])),
            None
        );
        assert_eq!(parsed(|r| r["cniArgs"] = Value::Null), None);
        assert_eq!(parsed(|r| r["config"] = json!("%")), None);
        assert_eq!(
            parsed(|r| r["config"] = json!(STANDARD.encode(r#"{"name":"one","type":"calico"}"#))),
            None
        );
        // The bare result that libcni 0.7 wrote.
        assert_eq!(
            parse(
                br#"{"cniVersion":"0.4.0","ips":[]}"#,
                SystemTime::UNIX_EPOCH,
                "linkerd-cni"
            ),
            None
        );
        let whole = text(|_| {});
        for length in 0..whole.len() {
            assert_eq!(
                parse(&whole[..length], SystemTime::UNIX_EPOCH, "linkerd-cni"),
                None,
                "half written"
            );
        }
    }

    #[test]
    fn only_regular_files_below_limit_are_read() {
        let scratch = Scratch::new();
        let file = |name: &str| scratch.path().join(name);
        fs::write(file("net-sandbox-1-eth0"), text(|_| {})).unwrap();
        fs::write(file("cni-loopback-sandbox-1-lo"), text(|_| {})).unwrap();
        fs::write(file("empty"), "").unwrap();
        fs::create_dir(file("folder")).unwrap();
        symlink(file("net-sandbox-1-eth0"), file("link")).unwrap();
        fs::File::create(file("huge"))
            .unwrap()
            .set_len(MAX_SIZE + 1)
            .unwrap();
        let pipe = std::process::Command::new("mkfifo")
            .arg(file("pipe"))
            .status()
            .unwrap();
        assert!(pipe.success());
        assert_eq!(read(scratch.path(), "linkerd-cni").unwrap().len(), 1);
        assert!(read(&file("absent"), "linkerd-cni").is_err());
    }

    #[test]
    fn newest_of_too_many_files_are_read() {
        let scratch = Scratch::new();
        let file = |name: &str| scratch.path().join(name);
        for (age, name) in ["net-1-eth0", "net-2-eth0", "lo-3-lo", "net-4-eth0"]
            .iter()
            .enumerate()
        {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age as u64);
            fs::File::create(file(name)).unwrap().set_modified(time).unwrap();
        }
        assert_eq!(
            newest(scratch.path(), 2).unwrap(),
            [file("net-1-eth0"), file("net-2-eth0")]
        );
        assert_eq!(newest(scratch.path(), MAX_FILES).unwrap().len(), 3);
    }
}
