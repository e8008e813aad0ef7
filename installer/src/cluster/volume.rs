//! The pod's projected volume on the node, where the kubelet renews the token for as long as the pod lives. With it, `once`
//! needs no copy of the token. Only reads.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use evergreen_kube::{claims::Claims, deadline::Deadline};
use serde_json::Value;

use crate::{
    cli::config::Config,
    cluster::{api, identity, requests},
};

/// The files in the volume, by their paths on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The token.
    pub token: PathBuf,
    /// The CA bundle.
    pub ca: PathBuf,
}

/// Finds the volume: the pod's UID is in its token, the volume's name in the pod's spec.
pub fn find(config: &Config) -> Result<Volume> {
    let claims =
        Claims::read(&identity::pod_token(&config.server)?).context("this pod's token has no claims")?;
    let pod = claims
        .kubernetes
        .pod
        .context("this pod's token does not name its pod")?;
    let namespace = claims.kubernetes.namespace;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{}", pod.name);
    let mut client = api::as_pod(&config.server, Deadline::after(api::TIMEOUT))?;
    let object = requests::get(
        &mut client,
        &path,
        &format!("get pod {namespace}/{}, to find its volume", pod.name),
    )?;
    let mount = config.server.token_file.parent().unwrap_or(Path::new("/"));
    let Some(name) = volume_at(&object, mount) else {
        bail!(
            "pod {namespace}/{} mounts no projected volume at {}",
            pod.name,
            mount.display()
        );
    };
    // Kubernetes' `pkg/volume/projected`: the volume plugin's name with its slash escaped.
    let dir = format!("pods/{}/volumes/kubernetes.io~projected/{name}", pod.uid);
    let dir = config.kubelet_dir.join(dir);
    let file = |file: &Path| dir.join(file.file_name().unwrap_or_default());
    let (token, ca) = (file(&config.server.token_file), file(&config.server.ca_file));
    // If the kubelet's directory is mounted, the path can be checked; else rely on the layout that every kubelet uses.
    if config.kubelet_dir.here().exists() && !token.here().exists() {
        bail!(
            "{token} does not exist; is {} this node's kubelet directory (EVERGREEN_KUBELET_DIR)?",
            config.kubelet_dir
        );
    }
    Ok(Volume {
        token: token.host().to_path_buf(),
        ca: ca.host().to_path_buf(),
    })
}

/// Returns the name of the projected volume that a container of the pod mounts at this path.
fn volume_at<'a>(pod: &'a Value, mount: &Path) -> Option<&'a str> {
    let list = |value: &'a Value| value.as_array().into_iter().flatten();
    let spec = &pod["spec"];
    let containers = list(&spec["containers"]).chain(list(&spec["initContainers"]));
    let mounts = containers.flat_map(|c| list(&c["volumeMounts"]));
    let here = mounts
        .filter(|m| m["mountPath"].as_str().is_some_and(|p| Path::new(p) == mount) && m["subPath"].is_null());
    let projected =
        |name: &str| list(&spec["volumes"]).any(|v| v["name"] == name && v["projected"].is_object());
    here.filter_map(|m| m["name"].as_str())
        .find(|name| projected(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_projected_volume_at_token_directory() {
        let mount = Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
        let pod = json!({"spec": {
            "volumes": [{"name": "cni-bin", "hostPath": {}}, {"name": "kube-api-access-x7k2p", "projected": {"sources": []}}],
            "initContainers": [{"volumeMounts": [
                {"name": "cni-bin", "mountPath": "/host/opt/cni/bin"},
                {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount/"}]}]}});
        assert_eq!(volume_at(&pod, mount), Some("kube-api-access-x7k2p"));
        assert_eq!(volume_at(&pod, Path::new("/elsewhere")), None);
        assert_eq!(volume_at(&pod, Path::new("/host/opt/cni/bin")), None);
        assert_eq!(volume_at(&json!({}), mount), None);
    }
}
