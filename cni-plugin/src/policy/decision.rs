//! From a pod's name to what should happen to it: what is at hand, the API server, and what stands in for it.

use crate::{
    error::{Code, Failure},
    policy::{
        cidr::Family,
        intent::{self, Decision, Facts, Precheck},
        ports::{Port, PortSet},
    },
    protocol::{call::PodName, netconf::NetConf},
};
use evergreen_kube::{self as kube, Client, Wait, deadline::Deadline, log::Log, pod::Pod};

/// With something in reserve the API server is waited for no longer than this part of the call's time: after a restart
/// of its node a pod should be back within seconds, whatever has become of the API server.
pub(crate) const API_SHARE_WITH_FALLBACK: u32 = 8;

/// Why there is no decision.
pub enum DecideError {
    /// The API server cannot be asked; something else may stand in for it.
    CannotBeAsked(kube::Error),
    /// Nothing else would do.
    Failed(Failure),
}

/// Decides about a pod whose addresses are of `families` (empty when nothing shows them), with the runtime's
/// annotations in reserve.
pub fn decide(
    netconf: &NetConf<'_>,
    pod: &PodName,
    families: &[Family],
    deadline: Deadline,
    log: Log,
) -> Result<Decision, Failure> {
    let in_reserve = netconf.annotations.is_some() && netconf.annotations_decide;
    let wait = if in_reserve {
        Wait::with_fallback(deadline.share(API_SHARE_WITH_FALLBACK))
    } else {
        deadline.into()
    };
    match decide_by_api(netconf, pod, families, wait, log) {
        Err(DecideError::CannotBeAsked(error)) if in_reserve => {
            log.warn(format_args!(
                "pod={pod} decided by the runtime's annotations, because {error}"
            ));
            Ok(intent::decide_by_annotations(netconf, families)?)
        }
        decided => decided.map_err(Failure::from),
    }
}

/// Decides by what is at hand and by the API server's word, and by nothing that stands in for it.
///
/// Credentials are read and the API server is asked in here and nowhere else, once for each call at most.
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
        if error.cannot_be_asked() {
            Self::CannotBeAsked(error)
        } else {
            Self::Failed(error.into())
        }
    }
}

impl From<DecideError> for Failure {
    fn from(undecided: DecideError) -> Self {
        match undecided {
            DecideError::CannotBeAsked(error) => error.into(),
            DecideError::Failed(failure) => failure,
        }
    }
}

impl From<intent::Invalid> for DecideError {
    fn from(invalid: intent::Invalid) -> Self {
        Self::Failed(invalid.into())
    }
}

/// Reads the credentials, asks for the pod and for what else can matter to it, and decides.
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
    let namespace = if intent::asks_namespace(&pod) {
        namespace_if_readable(client.namespace(&name.namespace), log)?
    } else {
        None
    };
    let service_ports = if intent::asks_service(&pod) {
        // Whatever the reason: there are ports to fall back on, and the pod itself has been read.
        let ports = client.api_service_ports();
        ports
            .map_err(|error| log.info(format_args!("service default/kubernetes left out: {error}")))
            .ok()
    } else {
        None
    };
    let service_ports: Option<PortSet> =
        service_ports.map(|ports| ports.into_iter().filter_map(Port::new).collect());
    let facts = Facts {
        pod: &pod,
        namespace: namespace.as_ref().map(|n| &n.annotations),
        service_ports: service_ports.as_ref(),
    };
    let decision = intent::decide(netconf, facts, families)?;
    warn_of_shared_user(&pod, name, &decision, log);
    Ok(decision)
}

/// The namespace, which the credential may but need not be allowed to read: a refusal is noted and lived with. So is an
/// answer that is none: whoever gave it has just given us the pod.
fn namespace_if_readable<T>(answer: Result<T, kube::Error>, log: Log) -> Result<Option<T>, kube::Error> {
    use kube::Class::{Forbidden, NotFound, NotKubernetes};
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.class, Forbidden | NotFound) => {
            log.info(format_args!("namespace left out: {error}"));
            Ok(None)
        }
        Err(error) if error.class == NotKubernetes => {
            log.warn(format_args!("namespace left out: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn warn_of_shared_user(pod: &Pod, name: &PodName, decision: &Decision, log: Log) {
    let Decision::Redirect(redirect) = decision else {
        return;
    };
    for container in intent::shares_proxy_user(pod, redirect) {
        log.warn(format_args!(
            "pod={name} container={container} runs as the proxy's user: what it sends leaves the mesh"
        ));
    }
}
