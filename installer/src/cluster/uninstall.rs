//! Asked to end: is this the end of the installation on this node, or will another installer follow?
//!
//! Removing at each end would leave pods unmeshed during every update; never removing would leave a node with a plugin
//! nobody keeps. So the DaemonSet is asked for. An uninstallation takes it first and the pod's rights right after, so that
//! there is often nobody left who may ask: then it shows in the loss of rights that the pod had before. Linkerd's chart
//! does not let its pods read DaemonSets; there it shows only so. Who deletes the whole namespace takes the pods first.

pub mod evidence;

use std::{
    fmt, mem, thread,
    time::{Duration, Instant},
};

use evergreen_kube::{Error, log::Log};

use self::evidence::{Daemonset, Pods, Seen};
use crate::{
    cli::config::{Config, OnTerm},
    cluster::api,
};

/// How long rights must be gone to be gone for good: an API server that has just started answers 403 for a while.
const GONE_FOR_GOOD: Duration = Duration::from_secs(3);
/// How long their loss is waited for (an uninstallation takes the DaemonSet first and its rights soon after), and an answer.
const WATCHED_FOR: Duration = Duration::from_secs(8);
/// Rights that were lost longer ago, while the DaemonSet lived, were lost by something else: a signing key replaced at once
/// makes every token unknown.
const OLD_TROUBLE: Duration = Duration::from_secs(60);
/// What the last question may take, whatever time is left.
const SHORTEST_ASK: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(400);
const NAMESPACE_GOES: &str = "the namespace is being deleted";

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

    fn unsure(config: &Config, because: impl fmt::Display) -> Self {
        Self {
            remove: config.on_term_unsure == OnTerm::Remove,
            because: format!("{because}; EVERGREEN_ON_TERM_UNSURE decides"),
        }
    }
}

/// What one look came to.
enum Look {
    Wanted,
    Going(&'static str),
    /// The rights this pod had are refused.
    Lost,
    /// They are not.
    Kept,
    /// This pod's token is not known, and the plugin's may do what it needs.
    Disowned,
    /// This pod's token is not known, and there is no other to ask with.
    Nobody,
    Silent(Error),
    /// Another look would say the same.
    Unknown(&'static str),
}

/// Decides, in some ten seconds at most. `seen`: what was there while all was well.
pub fn decide(config: &Config, seen: &Seen, log: Log) -> Decision {
    match config.on_term {
        OnTerm::Remove => return Decision::remove("EVERGREEN_ON_TERM is remove"),
        OnTerm::Keep => return Decision::keep("EVERGREEN_ON_TERM is keep"),
        OnTerm::Auto => {}
    }
    let begun = Instant::now();
    let (mut lost_since, mut said) = (None, false);
    loop {
        let left = WATCHED_FOR.saturating_sub(begun.elapsed());
        let look = look(config, seen, left.clamp(SHORTEST_ASK, api::ASKING_TAKES));
        let asked_for = begun.elapsed();
        let lost = matches!(look, Look::Lost | Look::Nobody);
        let lost_for = lost.then(|| lost_since.get_or_insert_with(Instant::now).elapsed());
        match look {
            Look::Going(because) => return Decision::remove(because),
            Look::Lost | Look::Nobody if seen.unknown_since.is_some_and(|t| t + OLD_TROUBLE < begun) => {
                return Decision::unsure(
                    config,
                    "the API server has not known the node's credential for more than a minute",
                );
            }
            Look::Lost if lost_for >= Some(GONE_FOR_GOOD) => {
                return Decision::remove("the rights this pod had are gone");
            }
            // Where the pod was deleted by force, another one comes meanwhile and takes over.
            Look::Nobody if asked_for >= WATCHED_FOR && lost_for >= Some(GONE_FOR_GOOD) => {
                return Decision::remove("the API server no longer knows this pod");
            }
            Look::Wanted => return Decision::keep("the DaemonSet is still wanted"),
            Look::Kept if asked_for >= WATCHED_FOR => {
                return Decision::keep(
                    "the rights this pod had are still there, so an uninstallation is unlikely",
                );
            }
            Look::Disowned if asked_for >= WATCHED_FOR => {
                return Decision::keep("this pod was deleted by force; the plugin's token is good");
            }
            Look::Silent(error) if asked_for >= WATCHED_FOR => return Decision::unsure(config, error),
            Look::Unknown(because) => return Decision::unsure(config, because),
            Look::Silent(error) => {
                if !mem::replace(&mut said, true) {
                    log.warn(format_args!("leaving=asks-again because={:?}", error.to_string()));
                }
            }
            Look::Lost | Look::Nobody | Look::Kept | Look::Disowned => {}
        }
        if !lost {
            lost_since = None;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

fn look(config: &Config, seen: &Seen, takes: Duration) -> Look {
    let had_rights = seen.had_rights();
    match evidence::daemonset(config, takes) {
        Daemonset::Wanted if evidence::namespace_terminating(config, takes) => Look::Going(NAMESPACE_GOES),
        Daemonset::Wanted => Look::Wanted,
        Daemonset::Going => Look::Going("the DaemonSet is being deleted"),
        Daemonset::Gone => Look::Going("the DaemonSet is gone"),
        Daemonset::Silent(error) => Look::Silent(error),
        // Whoever may still read pods has not lost everything: a change of our chart's `mode` takes the right to read the
        // DaemonSet, and nothing else.
        Daemonset::Refused | Daemonset::NamespaceUnknown if had_rights => match evidence::pods(config, takes)
        {
            Pods::Readable if evidence::namespace_terminating(config, takes) => Look::Going(NAMESPACE_GOES),
            Pods::Readable => Look::Kept,
            Pods::Refused => Look::Lost,
            Pods::Disowned => Look::Disowned,
            Pods::Unknown => Look::Nobody,
            Pods::Silent(error) => Look::Silent(error),
        },
        Daemonset::Refused => Look::Unknown("this pod may not read its DaemonSet"),
        Daemonset::NamespaceUnknown => Look::Unknown(
            "this pod's namespace, where its DaemonSet is, is not known: no file `namespace` beside its token, and the token \
             does not say it",
        ),
    }
}
