//! What the API server says of the credential on the node. Reads that credential, and writes what it learns to the status.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use evergreen_kube::{Class, Client, Error, Source, deadline::Deadline, log::Log};

use super::schedule::Schedule;
use crate::{
    cli::config::Config,
    cluster::{api, requests::Requests, rights, token::Token, uninstall::evidence::Named},
    health::status::{Review, Status},
};

/// How often the API server is asked about the node's credential when nothing changes.
const REVIEW_EVERY: Duration = Duration::from_secs(30);

/// Asks, and remembers what it has asked.
pub struct Reviewer {
    config: Config,
    status: Arc<Status>,
    log: Log,
    due: Schedule,
    /// Token and CA that were last asked about.
    asked_about: Option<(Vec<u8>, Vec<u8>)>,
    rights_known: bool,
    losses_known: bool,
    losses: Schedule,
    missing_said: bool,
}

/// What the API server makes of the token on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bearer {
    /// It knows its bearer, or has not been asked now, or has not answered.
    NotRefused,
    /// Nobody it knows.
    Unknown,
}

impl Reviewer {
    /// Nothing has been asked yet, and all is due.
    pub fn new(config: Config, status: Arc<Status>, log: Log) -> Self {
        Self {
            config,
            status,
            log,
            due: Schedule::now(),
            asked_about: None,
            rights_known: false,
            losses_known: false,
            losses: Schedule::now(),
            missing_said: false,
        }
    }

    /// When it wants to ask again.
    pub fn due(&self) -> &Schedule {
        &self.due
    }

    /// Asks the API server whether it takes what lies on the node, when that has changed or it is time.
    pub fn look(&mut self, wanted: &Token) -> Bearer {
        let files = wanted.files(&self.config);
        let [Ok(token), Ok(ca)] = files.each_ref().map(fs::read) else {
            self.status.facts().review = Review::NotAsked;
            self.due.next_in(REVIEW_EVERY);
            return Bearer::NotRefused;
        };
        let found = Some((token, ca));
        if !self.due.is_due() && self.asked_about == found {
            return Bearer::NotRefused;
        }
        self.asked_about = found;
        let [token, ca] = files;
        let answer = self.with(&token, &ca).and_then(accepted);
        if answer.is_ok() {
            self.due.succeeded(REVIEW_EVERY);
            self.look_at_rights(&token, &ca);
            self.look_at_what_can_be_lost();
        } else {
            self.due.failed();
        }
        let bearer = match &answer {
            Err(error) if error.class == Class::Unauthorized => Bearer::Unknown,
            _ => Bearer::NotRefused,
        };
        self.note(answer, bearer);
        bearer
    }

    fn with(&self, token: &Path, ca: &Path) -> Result<Client, Error> {
        let deadline = Deadline::after(api::ASKING_TAKES);
        api::with_token(
            &self.config.server,
            Source::File(token.to_path_buf()),
            ca,
            deadline,
        )
    }

    /// Asks once what the node's credential may do, and says what is missing and what is too much.
    fn look_at_rights(&mut self, token: &Path, ca: &Path) {
        if std::mem::replace(&mut self.rights_known, true) {
            return;
        }
        let found = self
            .with(token, ca)
            .and_then(|mut client| rights::ask(&mut client));
        // Some clusters let nobody ask this (no `system:basic-user`): then nothing is said.
        let found = found.unwrap_or_default();
        for (word, list) in [
            ("missing", &found.missing),
            ("absent", &found.without),
            ("too-much", &found.too_much),
        ] {
            for right in list {
                let line = format_args!("right={word} {right:?}");
                if word == "absent" {
                    self.log.debug(line)
                } else {
                    self.log.warn(line)
                }
            }
        }
    }

    /// Notes what an uninstallation would take (see [`crate::cluster::uninstall`]). Asked for until there is something, less and less
    /// often: whoever applies manifests one by one may give the rights after this pod has started.
    fn look_at_what_can_be_lost(&mut self) {
        if self.losses_known || !self.losses.is_due() {
            return;
        }
        // Not under the lock of the facts: somebody may ask for them meanwhile.
        let mut seen = self.status.facts().seen;
        let found = seen.look(&self.config);
        self.losses_known = found.is_ok() && seen.had_rights();
        self.status.facts().seen = seen;
        if matches!(found, Ok(Named::Nothing)) && !std::mem::replace(&mut self.missing_said, true) {
            self.log.warn(format_args!(
                "daemonset=missing name={:?}: this installer will remove everything when it ends; is EVERGREEN_DAEMONSET right?",
                self.config.daemonset
            ));
        }
        self.losses.failed();
    }

    /// For whoever asks, and for the end; said when it has changed.
    fn note(&self, answer: Result<String, Error>, bearer: Bearer) {
        let review = answer.map_or_else(|e| Review::Refused(e.to_string()), Review::Accepted);
        let mut facts = self.status.facts();
        if bearer == Bearer::Unknown {
            facts.seen.unknown_since.get_or_insert_with(Instant::now);
        } else if matches!(review, Review::Accepted(_)) {
            facts.seen.unknown_since = None;
        }
        if std::mem::discriminant(&facts.review) != std::mem::discriminant(&review) {
            match &review {
                Review::Refused(cause) => self
                    .log
                    .warn(format_args!("credential=refused because={cause:?}")),
                Review::Accepted(name) => self.log.info(format_args!("credential=accepted as={name}")),
                Review::NotAsked => {}
            }
        }
        facts.review = review;
    }
}

/// The name under which the API server knows the client. Before Kubernetes 1.28 it cannot say: then, that it has answered.
pub fn accepted(mut client: Client) -> Result<String, Error> {
    match client.self_subject_review() {
        Ok(user) => Ok(user.username),
        Err(e) if e.class == Class::NotFound => Ok(String::new()),
        Err(e) => Err(e),
    }
}
