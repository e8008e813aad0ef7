//! What the API server is asked about the end of an installation: while all is well, and again when this process has been
//! asked to end.

use std::{
    fs,
    time::{Duration, Instant},
};

use evergreen_kube::{Class, Error, Source, deadline::Deadline};

use crate::{
    cli::config::Config,
    cluster::{api, identity, requests::Requests},
};

/// A name of no pod will do: 404 is an answer to somebody who may ask.
const ANY_NAME: &str = "none";

/// What was seen while all was well.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// The DaemonSet was there.
    pub daemonset: bool,
    /// This pod may read pods: under Linkerd's chart the only right there is to lose.
    pub pods: bool,
    /// The API server has not known the node's credential since.
    pub unknown_since: Option<Instant>,
}

/// What the name is, that the DaemonSet is asked for by.
pub enum Named {
    /// A DaemonSet's, or nobody here knows.
    Something,
    /// No DaemonSet's.
    Nothing,
}

/// What the API server says of the DaemonSet.
pub enum Daemonset {
    Wanted,
    Going,
    Gone,
    /// It does not know this pod, or does not let it ask.
    Refused,
    /// There is nothing that says in which namespace it is.
    NamespaceUnknown,
    Silent(Error),
}

/// What the API server says of this pod's rights.
pub enum Pods {
    Readable,
    Refused,
    /// It does not know this pod's token, and lets the plugin read pods as ever: the pod was deleted by force.
    Disowned,
    /// It does not know this pod's token, and the plugin has no other: the pod was deleted by force, or its account is gone.
    Unknown,
    Silent(Error),
}

impl Seen {
    /// There is something whose loss says that the installation ends.
    pub fn had_rights(&self) -> bool {
        self.pods || self.daemonset
    }

    /// Asks for what could be lost. An error is no answer: ask again later.
    pub fn look(&mut self, config: &Config) -> Result<Named, Error> {
        let mut named = Named::Something;
        match daemonset(config, api::ASKING_TAKES) {
            Daemonset::Wanted | Daemonset::Going => self.daemonset = true,
            Daemonset::Gone => named = Named::Nothing,
            Daemonset::Refused | Daemonset::NamespaceUnknown => {}
            Daemonset::Silent(error) => return Err(error),
        }
        match pods(config, api::ASKING_TAKES) {
            Pods::Readable => self.pods = true,
            Pods::Refused | Pods::Disowned | Pods::Unknown => {}
            Pods::Silent(error) => return Err(error),
        }
        Ok(named)
    }
}

/// Asks for the DaemonSet.
pub fn daemonset(config: &Config, takes: Duration) -> Daemonset {
    let client = || api::as_pod(&config.server, Deadline::after(takes));
    let Some(namespace) = identity::pod_namespace(&config.server) else {
        // Nobody to ask is the nearer cause: ask something that needs no namespace.
        return match client().and_then(|mut client| client.self_subject_review()) {
            Err(e) if !(refuses(&e) || e.class == Class::NotFound) => Daemonset::Silent(e),
            _ => Daemonset::NamespaceUnknown,
        };
    };
    match client().and_then(|mut client| client.daemonset(&namespace, &config.daemonset)) {
        Ok(found) if found.deleting => Daemonset::Going,
        Ok(_) => Daemonset::Wanted,
        Err(e) if e.class == Class::NotFound => Daemonset::Gone,
        Err(e) if refuses(&e) => Daemonset::Refused,
        Err(e) => Daemonset::Silent(e),
    }
}

/// True when the API server does not know this pod, or does not let it do this.
fn refuses(error: &Error) -> bool {
    matches!(
        error.class,
        Class::Forbidden | Class::Unauthorized | Class::Anonymous
    )
}

/// Asks for this pod.
pub fn pods(config: &Config, takes: Duration) -> Pods {
    let claims = identity::pod_claims(&config.server);
    let namespace = identity::pod_namespace(&config.server).unwrap_or(claims.kubernetes.namespace);
    let name = claims
        .kubernetes
        .pod
        .map_or_else(|| ANY_NAME.to_owned(), |pod| pod.name);
    let client = api::as_pod(&config.server, Deadline::after(takes));
    match client.and_then(|mut client| client.pod(&namespace, &name, None)) {
        Ok(_) => Pods::Readable,
        Err(e) if e.class == Class::NotFound => Pods::Readable,
        Err(e) if e.class == Class::Unauthorized && plugin_has_a_copy(config) => Pods::Unknown,
        Err(e) if e.class == Class::Unauthorized && plugin_reads_pods(config, &namespace, takes) => {
            Pods::Disowned
        }
        Err(e) if refuses(&e) => Pods::Refused,
        Err(e) => Pods::Silent(e),
    }
}

fn plugin_has_a_copy(config: &Config) -> bool {
    let own = identity::pod_token(&config.server).ok();
    own.is_some() && fs::read(config.place.token_file().here()).ok() == own
}

/// It has to be allowed to, not only known: a kube-apiserver remembers a token that it has taken for 10 s
/// (`TokenSuccessCacheTTL`), whatever has become of the account; rights it does not remember.
fn plugin_reads_pods(config: &Config, namespace: &str, takes: Duration) -> bool {
    let (token, ca) = (config.place.token_file(), config.place.ca_file());
    let source = Source::File(token.here().to_path_buf());
    let client = api::with_token(&config.server, source, ca.here(), Deadline::after(takes));
    match client.and_then(|mut client| client.pod(namespace, ANY_NAME, None)) {
        Ok(_) => true,
        Err(e) => e.class == Class::NotFound,
    }
}

/// True when the namespace of this installation is being deleted. Its pods go first then (since Kubernetes 1.33), and all
/// that tells of an uninstallation is there as ever. Who may not ask does not know.
pub fn namespace_terminating(config: &Config, takes: Duration) -> bool {
    let Some(namespace) = identity::pod_namespace(&config.server) else {
        return false;
    };
    let client = api::as_pod(&config.server, Deadline::after(takes));
    client
        .and_then(|mut client| client.namespace_metadata(&namespace))
        .is_ok_and(|found| found.deleting)
}
