//! The decision about a pod from all sources: the call itself, the API server, and the fallback. The only file of `policy`
//! that does I/O.

use evergreen_kube::{
    self as kube, Client, Wait,
    deadline::Deadline,
    log::Log,
    pod::{Pod, Strings},
};

use crate::{
    net::{
        cidr::Family,
        ports::{Port, PortSet},
    },
    policy::{
        intent::{self, Decision, Facts, Precheck},
        overrides::InvalidOverride,
    },
    protocol::{
        args::PodName,
        failure::{Code, Failure},
        netconf::NetConf,
    },
};

/// With a fallback, the plugin waits for the API server for at most this part of the deadline: 1/8. After a node restarts,
/// its pods should start within seconds, whatever the state of the API server.
pub(crate) const API_SHARE_WITH_FALLBACK: u32 = 8;

/// Why there is no decision.
pub enum DecideError {
    /// The API server cannot answer; a fallback may decide.
    Unavailable(kube::Error),
    /// No fallback can help.
    Failed(Failure),
}

/// Decides about a pod with addresses of these families (empty when unknown). Falls back on the runtime's annotations.
pub fn decide(
    netconf: &NetConf<'_>,
    pod: &PodName,
    families: &[Family],
    deadline: Deadline,
    log: Log,
) -> Result<Decision, Failure> {
    let has_fallback = netconf.annotations.is_some() && netconf.annotations_decide;
    let wait = if has_fallback {
        Wait::with_fallback(deadline.share(API_SHARE_WITH_FALLBACK))
    } else {
        deadline.into()
    };
    match decide_by_api(netconf, pod, families, wait, log) {
        Err(DecideError::Unavailable(error)) if has_fallback => {
            log.with(&[("pod", pod), ("error", &error)])
                .warn("API server unavailable, runtime annotations decide");
            Ok(intent::decide_by_annotations(netconf, families)?)
        }
        decided => decided.map_err(Failure::from),
    }
}

/// Decides from the precheck or the API server's answer, without a fallback.
///
/// Credentials are read and the API server is asked here only, at most once per call.
pub fn decide_by_api(
    netconf: &NetConf<'_>,
    pod: &PodName,
    families: &[Family],
    wait: Wait,
    log: Log,
) -> Result<Decision, DecideError> {
    match intent::precheck(netconf, &pod.namespace) {
        Precheck::Pass(reason) => Ok(Decision::Skip(reason)),
        Precheck::Marked | Precheck::Unknown => ask(netconf, pod, families, wait, log),
    }
}

impl From<kube::Error> for DecideError {
    fn from(error: kube::Error) -> Self {
        if error.is_unavailable() {
            Self::Unavailable(error)
        } else {
            Self::Failed(error.into())
        }
    }
}

impl From<InvalidOverride> for DecideError {
    fn from(invalid: InvalidOverride) -> Self {
        Self::Failed(invalid.into())
    }
}

impl From<DecideError> for Failure {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Unavailable(error) => error.into(),
            DecideError::Failed(failure) => failure,
        }
    }
}

/// Reads the credentials, gets the pod and what else matters for it, and decides.
fn ask(
    netconf: &NetConf<'_>,
    name: &PodName,
    families: &[Family],
    wait: Wait,
    log: Log,
) -> Result<Decision, DecideError> {
    let path = netconf.kubeconfig.as_deref();
    let path = path.map_err(|why| DecideError::Failed(Failure::new(Code::NetConf, *why)))?;
    let mut client = Client::open(path, wait, log)?;
    let pod = client.pod(&name.namespace, &name.name, name.uid.as_deref())?;
    let namespace = if intent::needs_namespace(&pod) {
        namespace_annotations(&mut client, name, log)?
    } else {
        None
    };
    let service_ports = if intent::needs_service(&pod) {
        service_ports(&mut client, log)
    } else {
        None
    };
    let facts = Facts {
        pod: &pod,
        namespace: namespace.as_ref(),
        service_ports: service_ports.as_ref(),
    };
    let decision = intent::decide(netconf, facts, families)?;
    warn_of_shared_user(&pod, name, &decision, log);
    Ok(decision)
}

/// Gets the namespace's annotations. They are optional: on 403, 404 or a malformed answer the pod's own decide.
fn namespace_annotations(
    client: &mut Client,
    pod: &PodName,
    log: Log,
) -> Result<Option<Strings>, kube::Error> {
    use kube::Class::{Forbidden, NotFound, NotKubernetes};
    const MSG: &str = "namespace unreadable, its annotations are ignored";
    let error = match client.namespace(&pod.namespace) {
        Ok(namespace) => return Ok(Some(namespace.annotations)),
        Err(error) => error,
    };
    let keys: [(&str, &dyn std::fmt::Display); 2] = [("pod", pod), ("error", &error)];
    match error.class {
        Forbidden | NotFound => log.with(&keys).info(MSG),
        // Unexpected, since the same server has just sent the pod.
        NotKubernetes => log.with(&keys).warn(MSG),
        _ => return Err(error),
    }
    Ok(None)
}

/// Gets the ports of Service `default/kubernetes`. Any failure is only logged, because there are default ports.
fn service_ports(client: &mut Client, log: Log) -> Option<PortSet> {
    match client.api_service_ports() {
        Ok(ports) => Some(ports.into_iter().filter_map(Port::new).collect()),
        Err(error) => {
            log.with(&[("error", &error)])
                .info("service default/kubernetes unreadable, default ports used");
            None
        }
    }
}

fn warn_of_shared_user(pod: &Pod, name: &PodName, decision: &Decision, log: Log) {
    let Decision::Redirect(redirect) = decision else {
        return;
    };
    for container in intent::containers_with_proxy_user(pod, redirect) {
        log.with(&[("pod", name), ("container", &container)])
            .warn("container runs as the proxy's user, its traffic bypasses the mesh");
    }
}
