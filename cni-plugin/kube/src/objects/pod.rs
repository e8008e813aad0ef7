//! The fields of a pod, namespace and service that the plugin uses; the parser skips all others.

use serde::Deserialize;

pub use super::object::Strings;
use super::object::{Metadata, Object, read};

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.labels`
    pub labels: Strings,
    /// `metadata.annotations`
    pub annotations: Strings,
    /// `spec.containers`
    pub containers: Vec<Container>,
    /// `spec.initContainers`, native sidecars among them
    pub init_containers: Vec<Container>,
    /// `spec.securityContext.runAsUser`
    pub run_as_user: Option<i64>,
}

/// A container or init container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// `name`
    pub name: String,
    /// `securityContext.runAsUser`
    pub run_as_user: Option<i64>,
    /// `env`, only entries with a literal value, and only of the proxy: others may contain secrets
    pub env: Strings,
}

/// A namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.annotations`
    pub annotations: Strings,
}

/// The name of the proxy's container in pods of the injector.
pub const PROXY: &str = "linkerd-proxy";
/// The init container that programs the rules itself, in clusters without a CNI plugin.
pub const PROXY_INIT: &str = "linkerd-init";
/// The annotations that the injector puts on each pod it gives a proxy, by webhook or by hand.
pub const MARKS: [&str; 3] = [
    "linkerd.io/proxy-version",
    "linkerd.io/trust-root-sha256",
    "linkerd.io/created-by",
];
/// The interface with the pod's address. containerd and CRI-O always use this name; Multus uses others for further
/// networks.
pub const PRIMARY_INTERFACE: &str = "eth0";
/// Annotation of a mirror pod with the kubelet's own UID of the static pod.
const STATIC_UID: &str = "kubernetes.io/config.mirror";
/// Annotation of a static pod with the same UID.
const STATIC_HASH: &str = "kubernetes.io/config.hash";

/// Returns true if the annotations include one of the injector's [`MARKS`].
pub fn is_marked(annotations: &Strings) -> bool {
    MARKS.iter().any(|mark| annotations.contains_key(*mark))
}

impl Pod {
    /// Creates a pod from its metadata and spec.
    pub fn new(metadata: Metadata, spec: PodSpec) -> Self {
        let containers = |raw: Option<Vec<RawContainer>>| raw.into_iter().flatten().map(container).collect();
        Self {
            uid: metadata.uid.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            containers: containers(spec.containers),
            init_containers: containers(spec.init_containers),
            run_as_user: spec.security_context.unwrap_or_default().run_as_user,
        }
    }

    /// Returns true if a runtime uses this UID for the pod.
    pub fn is(&self, uid: &str) -> bool {
        self.uid == uid
            || [STATIC_UID, STATIC_HASH]
                .iter()
                .any(|key| self.annotations.get(*key).is_some_and(|u| u == uid))
    }

    /// The UID that the kubelet and the runtime use for the pod.
    pub fn kubelet_uid(&self) -> &str {
        self.annotations.get(STATIC_UID).unwrap_or(&self.uid)
    }

    /// Returns true if the pod has an init container of this name.
    pub fn has_init_container(&self, name: &str) -> bool {
        self.init_containers.iter().any(|c| c.name == name)
    }

    /// The proxy that a CNI plugin redirects to; none if the pod programs the rules itself.
    pub fn proxy(&self) -> Option<&Container> {
        // A native sidecar is an init container that keeps running.
        let mut all = self.containers.iter().chain(&self.init_containers);
        all.find(|c| c.name == PROXY)
            .filter(|_| !self.has_init_container(PROXY_INIT))
    }
}

// The raw form. Null, absent and empty are the same.

/// `spec` of a pod.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// `hostNetwork`
    pub host_network: Option<bool>,
    containers: Option<Vec<RawContainer>>,
    init_containers: Option<Vec<RawContainer>>,
    security_context: Option<RawSecurityContext>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainer {
    name: Option<String>,
    security_context: Option<RawSecurityContext>,
    env: Option<Vec<RawVariable>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawSecurityContext {
    run_as_user: Option<i64>,
}

#[derive(Deserialize)]
struct RawVariable {
    name: Option<String>,
    value: Option<String>,
}

#[derive(Deserialize, Default)]
struct RawServiceSpec {
    ports: Option<Vec<RawServicePort>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawServicePort {
    port: Option<u16>,
    /// A number, or the name of a container port.
    target_port: Option<serde_json::Value>,
}

/// Reads a pod, or says what the bytes are instead.
pub fn read_pod(body: &[u8]) -> Result<Pod, String> {
    let raw: Object<PodSpec> = read(body, "Pod")?;
    Ok(Pod::new(
        raw.metadata.unwrap_or_default(),
        raw.spec.unwrap_or_default(),
    ))
}

/// Reads a namespace.
pub(crate) fn read_namespace(body: &[u8]) -> Result<Namespace, String> {
    let raw: Object<serde::de::IgnoredAny> = read(body, "Namespace")?;
    Ok(Namespace {
        annotations: raw.metadata.unwrap_or_default().annotations.unwrap_or_default(),
    })
}

/// Reads the ports of a service and its numeric target ports, ascending.
pub(crate) fn read_service_ports(body: &[u8]) -> Result<Vec<u16>, String> {
    let raw: Object<RawServiceSpec> = read(body, "Service")?;
    let ports = raw.spec.unwrap_or_default().ports.unwrap_or_default();
    let mut numbers: Vec<u16> = Vec::new();
    for port in ports {
        let target = port
            .target_port
            .and_then(|t| t.as_u64())
            .and_then(|t| u16::try_from(t).ok());
        numbers.extend(port.port.into_iter().chain(target).filter(|p| *p > 0));
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

fn container(raw: RawContainer) -> Container {
    let name = raw.name.unwrap_or_default();
    let kept = if name == PROXY {
        raw.env.unwrap_or_default()
    } else {
        Vec::new()
    };
    Container {
        run_as_user: raw.security_context.unwrap_or_default().run_as_user,
        env: kept
            .into_iter()
            .filter_map(|v| Some((v.name?, v.value?)))
            .collect(),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> Vec<u8> {
        let path = format!(
            "{}/../../tests/fixtures/pods/{name}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    #[test]
    fn only_the_proxy_keeps_its_environment() {
        let pod = read_pod(&fixture("meshed")).unwrap();
        let names = |cs: &[Container]| cs.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&pod.containers), ["linkerd-proxy", "web"]);
        assert_eq!(names(&pod.init_containers), ["linkerd-network-validator"]);
        assert_eq!(pod.uid, "6b0e3a2e-52f7-4c3f-9a51-3d1b2c4e5f60");
        assert_eq!(
            pod.annotations["config.linkerd.io/skip-outbound-ports"],
            "5432,6379"
        );
        assert_eq!(pod.labels["linkerd.io/control-plane-ns"], "linkerd");
        let proxy = &pod.containers[0];
        assert_eq!(proxy.run_as_user, Some(2102));
        assert_eq!(proxy.env["LINKERD2_PROXY_INBOUND_LISTEN_ADDR"], "0.0.0.0:4143");
        assert!(
            !proxy.env.contains_key("_pod_name"),
            "only literal values are kept"
        );
        assert!(
            pod.containers[1].env.is_empty(),
            "the app's environment may contain secrets"
        );
    }

    #[test]
    fn native_sidecar_is_an_init_container() {
        let pod = read_pod(&fixture("native-sidecar")).unwrap();
        assert!(
            pod.init_containers
                .iter()
                .any(|c| c.name == PROXY && !c.env.is_empty())
        );
        assert!(pod.containers.iter().all(|c| c.name != PROXY));
    }

    #[test]
    fn null_maps_and_lists_are_empty() {
        let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"labels":null,"annotations":null},
            "spec":{"containers":null,"initContainers":null,"securityContext":null}}"#;
        assert_eq!(read_pod(pod.as_bytes()), Ok(Pod::default()));
        assert_eq!(
            read_pod(br#"{"kind":"Pod","apiVersion":"v1"}"#),
            Ok(Pod::default())
        );
    }

    #[test]
    fn pod_without_kind_is_accepted() {
        let pod = r#"{"metadata":{"name":"web-0","uid":"u"},"spec":{"containers":[{"name":"web"}]}}"#;
        assert_eq!(read_pod(pod.as_bytes()).unwrap().containers[0].name, "web");
        assert!(read_pod(br#"{"metadata":{},"status":"Failure"}"#).is_err());
    }

    #[test]
    fn other_objects_are_rejected_without_quoting() {
        for (body, cause) in [
            (
                r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#,
                "kind \"Status\" of \"v1\", not Pod",
            ),
            (
                r#"{"kind":"Pod","apiVersion":"v2"}"#,
                "kind \"Pod\" of \"v2\", not Pod of \"v1\"",
            ),
            (r#"{"apiVersion":"v1"}"#, "JSON without a kind"),
            ("{}", "JSON without a kind"),
            (r#"{"kind":"Pod","#, "is truncated"),
            ("", "is truncated"),
            ("<html>s3cret</html>", "an HTML page"),
            ("s3cret", "not JSON"),
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"labels":"s3cret"}}"#,
                "the wrong type for a Pod",
            ),
            ("[1]", "the wrong type for a Pod"),
        ] {
            let error = read_pod(body.as_bytes()).unwrap_err();
            assert!(error.contains(cause), "{body}: {error}");
            assert!(!error.contains("s3cret"), "{body}: {error}");
        }
    }

    #[test]
    fn static_pod_matches_the_kubelets_uid() {
        let mut pod = Pod {
            uid: "of-the-mirror".into(),
            ..Pod::default()
        };
        assert!(pod.is("of-the-mirror") && !pod.is("of-the-file"));
        pod.annotations
            .insert("kubernetes.io/config.hash".into(), "of-the-file".into());
        assert!(pod.is("of-the-file"));
    }

    #[test]
    fn service_ports_include_numeric_target_ports() {
        let service = r#"{"kind":"Service","apiVersion":"v1","spec":{"ports":[
            {"port":443,"targetPort":6443},{"port":8443,"targetPort":"https"},{"port":443,"targetPort":70000}]}}"#;
        assert_eq!(read_service_ports(service.as_bytes()), Ok(vec![443, 6443, 8443]));
    }
}
