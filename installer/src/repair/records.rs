//! What libcni has written down of every attachment of this node: one file each, `NETWORK-CONTAINER-INTERFACE`, which holds
//! the very list the sandbox was made by (`cachedInfo` of libcni/api.go, kind `cniCacheV1`, since libcni 0.8). containerd
//! and CRI-O leave it in libcni's own folder. Written when an ADD went well, removed by DEL; one may stay when its network
//! was renamed in between. Only reads, and follows no link.

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

/// Below the node's root, where libcni keeps them unless told otherwise.
pub const USUAL_DIR: &str = "/var/lib/cni/results";
/// The only kind there is.
const KIND: &str = "cniCacheV1";
/// A pod's annotations (256 KiB at most) and a network, with room.
const LONGEST: u64 = 2 << 20;
/// Many times what a full node has; the rest are of pods that are long gone.
const MOST: usize = 4000;

/// One attachment of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What the kubelet calls the pod by.
    pub uid: String,
    /// The sandbox.
    pub sandbox: String,
    /// When it was written: a sandbox made anew has a later one.
    pub written: SystemTime,
    /// It is the attachment of the pod's first interface.
    pub is_first: bool,
    /// The list the sandbox was made by.
    pub chain: Chain,
}

/// Every record that can be understood; others are not there.
pub fn read(dir: &Path, ours: &str) -> Result<Vec<Record>> {
    let read = |path: PathBuf| {
        // Gone by now, half written, or no record: the next look sees more.
        let (text, written) = open(&path).ok()?;
        parse(&text, written, ours)
    };
    Ok(newest(dir, MOST)?.into_iter().filter_map(read).collect())
}

/// The newest files, so that no pod is judged by an older record than there is. Half of all are loopback's, and left out.
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

/// A regular file's bytes and its time.
fn open(path: &Path) -> io::Result<(Vec<u8>, SystemTime)> {
    let (text, found) = file::read(&file::open(path, libc::O_NOFOLLOW)?, LONGEST)?;
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
        is_first: raw.if_name == PRIMARY_INTERFACE,
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
    fn a_record_says_which_pod_which_sandbox_and_which_list() {
        let record = parsed(|_| {}).unwrap();
        assert_eq!(
            (&*record.uid, &*record.sandbox, record.is_first),
            ("uid-1", "sandbox-1", true)
        );
        assert_eq!((&*record.chain.name, record.chain.with_us), ("net", true));
        assert!(!parsed(|r| r["ifName"] = json!("net1")).unwrap().is_first);
        let without = STANDARD.encode(r#"{"name":"net","plugins":[{"type":"calico"}]}"#);
        assert!(!parsed(|r| r["config"] = json!(without)).unwrap().chain.with_us);
    }

    #[test]
    fn what_is_no_record_of_a_pod_says_nothing() {
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
        // As libcni 0.7 wrote it: the bare result.
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
    fn only_plain_files_of_a_sane_size_are_read() {
        let scratch = Scratch::new();
        let file = |name: &str| scratch.path().join(name);
        fs::write(file("net-sandbox-1-eth0"), text(|_| {})).unwrap();
        fs::write(file("cni-loopback-sandbox-1-lo"), text(|_| {})).unwrap();
        fs::write(file("empty"), "").unwrap();
        fs::create_dir(file("folder")).unwrap();
        symlink(file("net-sandbox-1-eth0"), file("link")).unwrap();
        fs::File::create(file("huge"))
            .unwrap()
            .set_len(LONGEST + 1)
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
    fn of_very_many_files_the_newest_are_read() {
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
        assert_eq!(newest(scratch.path(), MOST).unwrap().len(), 3);
    }
}
