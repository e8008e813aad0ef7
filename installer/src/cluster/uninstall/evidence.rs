//! Evidence of an uninstall, and the table from evidence to decision that the README shows as well. The API server is asked
//! for it before SIGTERM, to know what there is to lose, and again after.

use std::{
    fmt, fs,
    time::{Duration, Instant},
};

use evergreen_kube::{Class, Client, Error, Source, deadline::Deadline};

use crate::{
    cli::config::Config,
    cluster::{api, identity, requests},
};

/// The name of no pod. Asking for it is enough: a 404 shows that the permission is there.
const ANY_NAME: &str = "none";

/// What the API server's answers say about an uninstall.
#[derive(Debug)]
pub enum Evidence {
    /// The DaemonSet is being deleted.
    DaemonSetTerminating,
    /// There is no DaemonSet.
    DaemonSetGone,
    /// The namespace is being deleted, with the DaemonSet or this pod's permissions still there: pods go first (Kubernetes
    /// 1.33 and later).
    NamespaceTerminating,
    /// The DaemonSet exists, and neither it nor its namespace is being deleted.
    DaemonSetExists,
    /// This pod may no longer read the DaemonSet, but may still read pods.
    PermissionsKept,
    /// Permissions or token are lost, but the node's credential was rejected long before SIGTERM.
    RejectedBefore,
    /// This pod may no longer read pods.
    PermissionsLost,
    /// This pod's token is rejected (401), and the plugin has a token that may still read pods.
    TokenRevokedPluginOk,
    /// This pod's token is rejected (401), and the plugin has no other: the pod was force-deleted, or its ServiceAccount is
    /// gone.
    TokenRevoked,
    /// This pod may not read the DaemonSet, and had no permission to lose.
    NotPermitted,
    /// Neither the pod's volume nor its token names the namespace.
    NamespaceUnknown,
    /// The API server gave no answer.
    Unanswered(Error),
}

/// What a shutdown does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Remove everything from the node.
    Remove,
    /// Keep everything.
    Keep,
    /// What `EVERGREEN_ON_TERM_UNSURE` says.
    Unsure,
}

/// When evidence decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// As soon as it is seen.
    AtOnce,
    /// When it has lasted for three seconds.
    Lasting,
    /// When it is what is seen after eight seconds.
    Observed,
    /// When both hold.
    ObservedLasting,
}

impl Evidence {
    /// The table, in the order of the README: when each piece of evidence decides, and what.
    pub fn decision(&self) -> (When, Action) {
        match self {
            Self::DaemonSetTerminating => (When::AtOnce, Action::Remove),
            Self::DaemonSetGone => (When::AtOnce, Action::Remove),
            Self::NamespaceTerminating => (When::AtOnce, Action::Remove),
            Self::DaemonSetExists => (When::AtOnce, Action::Keep),
            Self::PermissionsKept => (When::Observed, Action::Keep),
            Self::RejectedBefore => (When::AtOnce, Action::Unsure),
            Self::PermissionsLost => (When::Lasting, Action::Remove),
            Self::TokenRevokedPluginOk => (When::Observed, Action::Keep),
            Self::TokenRevoked => (When::ObservedLasting, Action::Remove),
            Self::NotPermitted => (When::AtOnce, Action::Unsure),
            Self::NamespaceUnknown => (When::AtOnce, Action::Unsure),
            Self::Unanswered(_) => (When::Observed, Action::Unsure),
        }
    }

    /// Returns true for what an API server that has just started may say by mistake.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::PermissionsLost | Self::TokenRevoked)
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DaemonSetTerminating => "the DaemonSet is being deleted",
            Self::DaemonSetGone => "the DaemonSet does not exist",
            Self::NamespaceTerminating => "the namespace is being deleted",
            Self::DaemonSetExists => "the DaemonSet exists",
            Self::PermissionsKept => "this pod still has its permissions, which an uninstall would have removed",
            Self::PermissionsLost => "this pod has lost the permissions it had",
            Self::TokenRevokedPluginOk => "this pod was force-deleted; the plugin's token is still accepted",
            Self::TokenRevoked => "the API server no longer accepts this pod's token",
            Self::RejectedBefore => "the API server has rejected the node's credential for more than a minute",
            Self::NotPermitted => "this pod has no permission to get its DaemonSet",
            Self::NamespaceUnknown => {
                "the namespace of this pod and its DaemonSet is unknown: there is no file `namespace` beside its token, and \
                 the token does not name it"
            }
            Self::Unanswered(error) => return error.fmt(f),
        })
    }
}

/// What there is to lose, observed before SIGTERM.
#[derive(Debug, Clone, Copy, Default)]
pub struct Baseline {
    /// This pod was able to read its DaemonSet.
    daemonset: bool,
    /// This pod was able to read pods: under Linkerd's chart the only permission there is to lose.
    pods: bool,
    /// Since when the API server has rejected the node's token (401).
    pub rejected_since: Option<Instant>,
}

impl Baseline {
    /// Returns true if there is a permission whose loss is evidence of an uninstall.
    pub fn had_permissions(&self) -> bool {
        self.pods || self.daemonset
    }

    /// Adds what this pod may read now. Returns the evidence about the DaemonSet.
    pub fn observe(&mut self, config: &Config) -> Result<Evidence, Error> {
        let daemonset = daemonset(config, api::TIMEOUT);
        match daemonset {
            Evidence::DaemonSetExists | Evidence::DaemonSetTerminating => self.daemonset = true,
            Evidence::Unanswered(error) => return Err(error),
            _ => {}
        }
        match permissions(config, api::TIMEOUT) {
            Evidence::PermissionsKept => self.pods = true,
            Evidence::Unanswered(error) => return Err(error),
            _ => {}
        }
        Ok(daemonset)
    }
}

/// Asks the API server for all evidence there is; `timeout` holds for each request.
pub fn survey(config: &Config, baseline: &Baseline, timeout: Duration) -> Evidence {
    let mut evidence = daemonset(config, timeout);
    // A pod that may still read pods has not lost everything: another `mode` of our chart takes only the permission to read
    // the DaemonSet.
    if matches!(evidence, Evidence::NotPermitted | Evidence::NamespaceUnknown) && baseline.had_permissions() {
        evidence = permissions(config, timeout);
    }
    match evidence {
        Evidence::DaemonSetExists | Evidence::PermissionsKept if namespace_terminating(config, timeout) => {
            Evidence::NamespaceTerminating
        }
        evidence => evidence,
    }
}

/// Asks for the DaemonSet.
fn daemonset(config: &Config, timeout: Duration) -> Evidence {
    let Some(namespace) = identity::pod_namespace(&config.server) else {
        // An API server that does not answer is the more useful cause: ask for something that needs no namespace.
        return match as_pod(config, timeout).and_then(|mut client| requests::whoami(&mut client)) {
            Err(e) if !(is_denied(&e) || e.class == Class::NotFound) => Evidence::Unanswered(e),
            _ => Evidence::NamespaceUnknown,
        };
    };
    match as_pod(config, timeout)
        .and_then(|mut client| requests::daemonset(&mut client, &namespace, &config.daemonset))
    {
        Ok(found) if found.deleting => Evidence::DaemonSetTerminating,
        Ok(_) => Evidence::DaemonSetExists,
        Err(e) if e.class == Class::NotFound => Evidence::DaemonSetGone,
        Err(e) if is_denied(&e) => Evidence::NotPermitted,
        Err(e) => Evidence::Unanswered(e),
    }
}

/// Asks for this pod, to see whether it may read pods.
fn permissions(config: &Config, timeout: Duration) -> Evidence {
    let claims = identity::pod_claims(&config.server).kubernetes;
    let namespace = identity::pod_namespace(&config.server).unwrap_or_default();
    let name = claims.pod.map_or_else(|| ANY_NAME.to_owned(), |pod| pod.name);
    match reads_pod(as_pod(config, timeout), &namespace, &name) {
        Ok(()) => Evidence::PermissionsKept,
        Err(e) if e.class == Class::Unauthorized && plugin_has_a_copy(config) => Evidence::TokenRevoked,
        Err(e) if e.class == Class::Unauthorized && plugin_reads_pods(config, &namespace, timeout) => {
            Evidence::TokenRevokedPluginOk
        }
        Err(e) if is_denied(&e) => Evidence::PermissionsLost,
        Err(e) => Evidence::Unanswered(e),
    }
}

/// Returns true if the plugin's token is this pod's own.
fn plugin_has_a_copy(config: &Config) -> bool {
    let own = identity::pod_token(&config.server).ok();
    own.is_some() && fs::read(config.paths.token_file().here()).ok() == own
}

/// Returns true if the plugin's token may read pods. That the API server knows the token proves nothing: it caches a token
/// it has accepted for 10 s (`TokenSuccessCacheTTL`), even if the ServiceAccount is gone. Permissions are not cached.
fn plugin_reads_pods(config: &Config, namespace: &str, timeout: Duration) -> bool {
    let (token, ca) = (config.paths.token_file(), config.paths.ca_file());
    let source = Source::File(token.here().to_path_buf());
    let client = api::with_token(&config.server, source, ca.here(), Deadline::after(timeout));
    reads_pod(client, namespace, ANY_NAME).is_ok()
}

fn as_pod(config: &Config, timeout: Duration) -> Result<Client, Error> {
    api::as_pod(&config.server, Deadline::after(timeout))
}

fn reads_pod(client: Result<Client, Error>, namespace: &str, name: &str) -> Result<(), Error> {
    match client.and_then(|mut client| client.pod(namespace, name, None)) {
        Err(e) if e.class != Class::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Returns true when the API server does not know this pod, or RBAC denies the request.
fn is_denied(error: &Error) -> bool {
    matches!(
        error.class,
        Class::Forbidden | Class::Unauthorized | Class::Anonymous
    )
}

/// Returns true when this pod's namespace is known to be terminating; without the permission to read it, false.
fn namespace_terminating(config: &Config, timeout: Duration) -> bool {
    identity::pod_namespace(&config.server).is_some_and(|namespace| {
        as_pod(config, timeout)
            .and_then(|mut client| requests::namespace(&mut client, &namespace))
            .is_ok_and(|found| found.deleting)
    })
}
