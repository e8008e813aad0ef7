//! Asks the API server about the credential on the node: does it accept the token, what may the token do, and which of this
//! pod's permissions would an uninstall take away.

use std::{
    fs, mem,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use evergreen_kube::{Class, Client, Error, Source, deadline::Deadline, log::Log};

use super::{
    schedule::Schedule,
    state::{CredentialState, Review},
};
use crate::{
    cli::config::Config,
    cluster::{
        api,
        permissions::{self, Need},
        requests,
        token::Token,
        uninstall::Evidence,
    },
};

/// How often the API server is asked about the node's credential when nothing changes.
const REVIEW_EVERY: Duration = Duration::from_secs(30);

/// Asks the API server, and remembers what it was asked.
pub struct Reviewer {
    config: Config,
    shared: Arc<CredentialState>,
    log: Log,
    due: Schedule,
    /// Token and CA of the last question.
    reviewed: Option<(Vec<u8>, Vec<u8>)>,
    permissions_reported: bool,
    baseline_known: bool,
    baseline_due: Schedule,
    missing_daemonset_reported: bool,
}

impl Reviewer {
    /// A reviewer to which everything is due.
    pub fn new(config: Config, shared: Arc<CredentialState>, log: Log) -> Self {
        Self {
            config,
            shared,
            log,
            due: Schedule::now(),
            reviewed: None,
            permissions_reported: false,
            baseline_known: false,
            baseline_due: Schedule::now(),
            missing_daemonset_reported: false,
        }
    }

    /// Returns when it will ask again.
    pub fn due(&self) -> &Schedule {
        &self.due
    }

    /// Asks whether the API server accepts the credential on the node, if that has changed or a review is due. Returns true
    /// when the API server does not know the token (401).
    pub fn review(&mut self, wanted: &Token) -> bool {
        let files = wanted.files(&self.config);
        let [Ok(token), Ok(ca)] = files.each_ref().map(fs::read) else {
            self.shared.lock().review = Review::Pending;
            self.due.next_in(REVIEW_EVERY);
            return false;
        };
        let found = Some((token, ca));
        if !self.due.is_due() && self.reviewed == found {
            return false;
        }
        self.reviewed = found;
        let [token, ca] = files;
        let answer = self.client(&token, &ca).and_then(accepted);
        if answer.is_ok() {
            self.due.succeeded(REVIEW_EVERY);
            self.report_permissions(&token, &ca);
            self.observe_baseline();
        } else {
            self.due.failed();
        }
        let unauthorized = matches!(&answer, Err(error) if error.class == Class::Unauthorized);
        self.publish(answer, unauthorized);
        unauthorized
    }

    fn client(&self, token: &Path, ca: &Path) -> Result<Client, Error> {
        let source = Source::File(token.to_path_buf());
        api::with_token(&self.config.server, source, ca, Deadline::after(api::TIMEOUT))
    }

    /// Logs once which permissions of the node's credential are missing or not needed.
    fn report_permissions(&mut self, token: &Path, ca: &Path) {
        if mem::replace(&mut self.permissions_reported, true) {
            return;
        }
        let found = self
            .client(token, ca)
            .and_then(|mut client| permissions::review(&mut client));
        // Some clusters allow no access reviews (no `system:basic-user`); then nothing is logged.
        for permission in found.unwrap_or_default() {
            let (name, why) = (permission.name(), permission.why);
            let keys: [(&str, &dyn std::fmt::Display); 2] = [("name", &name), ("reason", &why)];
            let line = self.log.with(&keys);
            match permission.need {
                Need::Required => line.warn("permission missing"),
                Need::Optional => line.debug("optional permission missing"),
                Need::Excessive => line.warn("permission not needed"),
            }
        }
    }

    /// Records what an uninstall would take away (see [`crate::cluster::uninstall`]). Repeated with growing pauses until
    /// there is something: manifests may grant the permissions only after this pod has started.
    fn observe_baseline(&mut self) {
        if self.baseline_known || !self.baseline_due.is_due() {
            return;
        }
        // Not under the lock: `health` may need the state meanwhile.
        let mut baseline = self.shared.baseline();
        let found = baseline.observe(&self.config);
        self.baseline_known = found.is_ok() && baseline.had_permissions();
        self.shared.lock().baseline = baseline;
        if matches!(found, Ok(Evidence::DaemonSetGone))
            && !mem::replace(&mut self.missing_daemonset_reported, true)
        {
            self.log
                .with(&[
                    ("name", &self.config.daemonset),
                    (
                        "reason",
                        &"does EVERGREEN_DAEMONSET name the DaemonSet of this pod?",
                    ),
                ])
                .warn("daemonset not found, so shutdown removes everything");
        }
        self.baseline_due.failed();
    }

    /// Publishes the answer, and logs it when its kind has changed.
    fn publish(&self, answer: Result<String, Error>, unauthorized: bool) {
        let review = answer.map_or_else(|e| Review::Rejected(e.to_string()), Review::Accepted);
        let mut state = self.shared.lock();
        if unauthorized {
            state.baseline.rejected_since.get_or_insert_with(Instant::now);
        } else if matches!(review, Review::Accepted(_)) {
            state.baseline.rejected_since = None;
        }
        if mem::discriminant(&state.review) != mem::discriminant(&review) {
            match &review {
                Review::Rejected(error) => self.log.with(&[("error", error)]).warn("credential rejected"),
                Review::Accepted(user) => self.log.with(&[("subject", user)]).info("credential accepted"),
                Review::Pending => {}
            }
        }
        state.review = review;
    }
}

/// Returns the user name that the API server knows the client by; empty before Kubernetes 1.28, which has no review for it
/// but has then authenticated the client.
pub fn accepted(mut client: Client) -> Result<String, Error> {
    match requests::whoami(&mut client) {
        Ok(user) => Ok(user),
        Err(e) if e.class == Class::NotFound => Ok(String::new()),
        Err(e) => Err(e),
    }
}
