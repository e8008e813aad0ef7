//! At SIGTERM: is this an uninstall, or will another installer follow?
//!
//! Removing at every shutdown would leave pods unmeshed during each update; never removing would leave an orphaned plugin on
//! the node. So the API server is asked about the DaemonSet. `helm uninstall` deletes it first and this pod's permissions
//! soon after, so there may be no permission left to ask with. Then the loss of permissions that the pod is known to have
//! had is the evidence; under Linkerd's chart, whose pods may not read DaemonSets, it is the only one.

mod evidence;

use std::{
    mem, thread,
    time::{Duration, Instant},
};

use evergreen_kube::log::Log;

pub use self::evidence::{Baseline, Evidence};
use crate::{
    cli::config::{Config, OnTerm},
    cluster::{
        api,
        uninstall::evidence::{Action, When},
    },
};

/// How long permissions must be lost without a break: an API server that has just started answers 403 for a while.
const LOST_FOR: Duration = Duration::from_secs(3);
/// How long evidence of an uninstall, or an answer, is waited for.
const OBSERVED_FOR: Duration = Duration::from_secs(8);
/// A token that has been rejected for longer than this before SIGTERM was not revoked by an uninstall: a replaced signing
/// key, for example, makes every token unknown.
const OLD_TROUBLE: Duration = Duration::from_secs(60);
/// The least time for one request, whatever time is left.
const SHORTEST_REQUEST: Duration = Duration::from_secs(1);
const BETWEEN_SURVEYS: Duration = Duration::from_millis(400);

/// What the shutdown does, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// True to remove everything, false to keep everything.
    pub remove: bool,
    /// What the decision rests on, for the log.
    pub evidence: String,
}

impl Decision {
    /// A decision to keep everything.
    pub fn keep(evidence: impl Into<String>) -> Self {
        Self {
            remove: false,
            evidence: evidence.into(),
        }
    }

    /// Returns the action, as it is logged.
    pub fn action(&self) -> &'static str {
        if self.remove { "remove" } else { "keep" }
    }

    fn new(config: &Config, action: Action, evidence: String) -> Self {
        let unsure = action == Action::Unsure;
        Self {
            remove: action == Action::Remove || unsure && config.remove_if_unsure,
            evidence: if unsure {
                format!("{evidence}; EVERGREEN_ON_TERM_UNSURE decides")
            } else {
                evidence
            },
        }
    }
}

/// Decides within about ten seconds. `baseline` is what was observed before SIGTERM.
pub fn decide(config: &Config, baseline: &Baseline, log: Log) -> Decision {
    match config.on_term {
        OnTerm::Remove => {
            return Decision::new(config, Action::Remove, "EVERGREEN_ON_TERM is remove".to_owned());
        }
        OnTerm::Keep => return Decision::keep("EVERGREEN_ON_TERM is keep"),
        OnTerm::Auto => {}
    }
    let start = Instant::now();
    let rejected_before = baseline.rejected_since.is_some_and(|t| t + OLD_TROUBLE < start);
    let (mut lost_since, mut logged) = (None, false);
    loop {
        let left = OBSERVED_FOR.saturating_sub(start.elapsed());
        let timeout = left.clamp(SHORTEST_REQUEST, api::TIMEOUT);
        let evidence = match evidence::survey(config, baseline, timeout) {
            loss if loss.is_loss() && rejected_before => Evidence::RejectedBefore,
            evidence => evidence,
        };
        if !evidence.is_loss() {
            lost_since = None;
        }
        let observed = start.elapsed() >= OBSERVED_FOR;
        let lasting = evidence.is_loss() && lost_since.get_or_insert_with(Instant::now).elapsed() >= LOST_FOR;
        let (when, action) = evidence.decision();
        if match when {
            When::AtOnce => true,
            When::Lasting => lasting,
            When::Observed => observed,
            When::ObservedLasting => observed && lasting,
        } {
            return Decision::new(config, action, evidence.to_string());
        }
        if let Evidence::Unanswered(error) = &evidence
            && !mem::replace(&mut logged, true)
        {
            log.with(&[("error", error)]).warn("shutdown decision delayed");
        }
        thread::sleep(BETWEEN_SURVEYS);
    }
}
