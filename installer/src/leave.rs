//! Asked to end: is this the end of the installation on this node, or will another installer follow?
//!
//! Removing at each end would leave pods unmeshed during every update; never removing would leave a node with a plugin
//! nobody keeps. So the DaemonSet is asked for. Linkerd's chart does not let its pods read DaemonSets; there, an
//! uninstallation shows in the loss of rights that the pod had before.

use std::{
    thread,
    time::{Duration, Instant},
};

use evergreen_cni::{
    deadline::Deadline,
    kube::{Class, Error, Source, claims::Claims},
};

use crate::{
    api,
    config::{Config, OnTerm},
    credentials,
};

/// How long rights must be gone to be gone for good: an API server that has just started answers 403 for a while.
const GONE_FOR_GOOD: Duration = Duration::from_secs(3);
/// How long their loss is waited for: an uninstallation takes the DaemonSet first and its rights soon after.
const WATCHED_FOR: Duration = Duration::from_secs(8);
const BETWEEN_LOOKS: Duration = Duration::from_millis(400);

/// What is done, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// True to remove everything.
    pub remove: bool,
    /// For the log.
    pub because: String,
}

impl Decision {
    /// Everything stays.
    pub fn keep(because: impl Into<String>) -> Self {
        Self {
            remove: false,
            because: because.into(),
        }
    }

    /// Everything goes.
    fn remove(because: impl Into<String>) -> Self {
        Self {
            remove: true,
            because: because.into(),
        }
    }
}

/// What the API server says of the DaemonSet.
enum Wanted {
    Yes,
    No(&'static str),
    MayNotAsk,
    /// There is nothing that says in which namespace it is.
    NamespaceUnknown,
    CannotAsk(Error),
}

/// Decides. `had_rights`: this pod was seen to be allowed to read pods.
pub fn decide(config: &Config, had_rights: bool) -> Decision {
    match config.on_term {
        OnTerm::Remove => return Decision::remove("EVERGREEN_ON_TERM is remove"),
        OnTerm::Keep => return Decision::keep("EVERGREEN_ON_TERM is keep"),
        OnTerm::Auto => {}
    }
    match daemonset(config) {
        Wanted::Yes => Decision::keep("the DaemonSet is still wanted"),
        Wanted::No(because) => Decision::remove(because),
        Wanted::MayNotAsk | Wanted::NamespaceUnknown if had_rights => watch_rights(config),
        Wanted::MayNotAsk => unsure(config, "this pod may not read its DaemonSet"),
        Wanted::NamespaceUnknown => unsure(
            config,
            "this pod's namespace, where its DaemonSet is, is not known: no file `namespace` beside its token, and the token \
             does not say it",
        ),
        Wanted::CannotAsk(error) => unsure(config, &error.to_string()),
    }
}

fn unsure(config: &Config, because: &str) -> Decision {
    let remove = config.on_term_unsure == OnTerm::Remove;
    Decision {
        remove,
        because: format!("{because}; EVERGREEN_ON_TERM_UNSURE decides"),
    }
}

fn daemonset(config: &Config) -> Wanted {
    let client = || api::as_pod(&config.server, Deadline::after(api::ASKING_TAKES));
    let Some(namespace) = credentials::own_namespace(config) else {
        // Nobody to ask is the nearer cause: ask something that needs no namespace.
        return match client().and_then(|mut client| client.self_subject_review()) {
            Err(e) if !(refuses(&e) || e.class == Class::NotFound) => Wanted::CannotAsk(e),
            _ => Wanted::NamespaceUnknown,
        };
    };
    match client().and_then(|mut client| client.daemonset(&namespace, &config.daemonset)) {
        Ok(found) if found.deleting => Wanted::No("the DaemonSet is being deleted"),
        Ok(_) => Wanted::Yes,
        Err(e) if e.class == Class::NotFound => Wanted::No("the DaemonSet is gone"),
        Err(e) if refuses(&e) => Wanted::MayNotAsk,
        Err(e) => Wanted::CannotAsk(e),
    }
}

/// True when the API server does not know this pod, or does not let it do this.
fn refuses(error: &Error) -> bool {
    matches!(
        error.class,
        Class::Forbidden | Class::Unauthorized | Class::Anonymous
    )
}

/// Asks for this pod again and again, which it was allowed before.
fn watch_rights(config: &Config) -> Decision {
    let end = Instant::now() + WATCHED_FOR;
    let mut gone_since = None;
    loop {
        match may_read_itself(config) {
            Err(e) if refuses(&e) => {
                let since: Instant = *gone_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= GONE_FOR_GOOD {
                    return Decision::remove("the rights this pod had are gone");
                }
            }
            Err(e) if Instant::now() >= end => return unsure(config, &e.to_string()),
            Err(_) => {}
            Ok(()) => gone_since = None,
        }
        if gone_since.is_none() && Instant::now() >= end {
            return Decision::keep(
                "the rights this pod had are still there, so an uninstallation is unlikely",
            );
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

fn may_read_itself(config: &Config) -> Result<(), Error> {
    let mut client = api::as_pod(&config.server, Deadline::after(Duration::from_secs(1)))?;
    let claims = credentials::pod_token(config)
        .ok()
        .and_then(|t| Claims::read(&t))
        .unwrap_or_default();
    let namespace = credentials::own_namespace(config).unwrap_or(claims.kubernetes.namespace);
    // Any name will do: 404 is an answer to somebody who may ask.
    let name = claims
        .kubernetes
        .pod
        .map_or_else(|| "none".to_owned(), |pod| pod.name);
    match client.pod(&namespace, &name, None) {
        Err(e) if e.class == Class::NotFound => Ok(()),
        // A pod that was deleted by force takes its token with it: that alone is no uninstallation. The plugin's own token
        // tells the two apart.
        Err(e) if e.class == Class::Unauthorized && plugin_is_known(config) => Ok(()),
        answer => answer.map(|_| ()),
    }
}

fn plugin_is_known(config: &Config) -> bool {
    let [token, ca] = credentials::on_node(config);
    let deadline = Deadline::after(Duration::from_secs(1));
    let client = api::with_token(&config.server, Source::File(token), &ca, deadline);
    client.and_then(|mut client| client.self_subject_review()).is_ok()
}
