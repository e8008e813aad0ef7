//! The thread's own side: what it asks, when, and what it makes of the answers.

use std::{
    fs,
    io::Write,
    os::unix::net::UnixStream,
    path::Path,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use evergreen_cni::{
    deadline::Deadline,
    kube::{Class, Client, Error, Secret, Source, claims::Claims, clock},
    log::Log,
};

use super::{
    Keeper, Token,
    schedule::{FIRST_PAUSE, LONGEST_PAUSE, Schedule},
};
use crate::{
    api,
    config::{Config, TokenSource},
    credentials, rights,
    status::{Review, Status},
    token::{self, Minted},
    volume,
};

/// How often the API server is asked about the node's credential when nothing changes.
const REVIEW_EVERY: Duration = Duration::from_secs(30);

/// The thread's own side.
pub struct Work {
    config: Config,
    keeper: Arc<Keeper>,
    status: Arc<Status>,
    bell: Option<UnixStream>,
    log: Log,
    /// The pod's token when the last one was minted with it.
    minted_with: Option<Vec<u8>>,
    mint: Schedule,
    review: Schedule,
    /// Token and CA that were last asked about.
    reviewed: Option<(Vec<u8>, Vec<u8>)>,
    rights_known: bool,
    losses_known: bool,
}

impl Work {
    /// Nothing is known yet, and everything due.
    pub fn new(
        config: Config,
        keeper: Arc<Keeper>,
        status: Arc<Status>,
        bell: Option<UnixStream>,
        log: Log,
    ) -> Self {
        let (mint, review) = (Schedule::now(), Schedule::now());
        Self {
            config,
            keeper,
            status,
            bell,
            log,
            minted_with: None,
            mint,
            review,
            reviewed: None,
            rights_known: false,
            losses_known: false,
        }
    }

    /// Until the process ends.
    pub fn for_ever(mut self) {
        loop {
            self.keep_token();
            self.review();
            let mut state = self.keeper.state();
            while !state.woken && !self.mint.is_due() && !self.review.is_due() {
                let wait = self.mint.left().min(self.review.left());
                state = self
                    .keeper
                    .changed
                    .wait_timeout(state, wait)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            state.woken = false;
        }
    }

    /// Sees to it that there is a token of the plugin's own, if there may be one.
    pub fn keep_token(&mut self) {
        match self.config.token_source {
            TokenSource::Copy => return self.mint.next_in(LONGEST_PAUSE),
            TokenSource::KubeletVolume => return self.find_volume(),
            TokenSource::Auto | TokenSource::Request => {}
        }
        // Without a token of its own the pod has nothing to ask with.
        let Ok(pod_token) = credentials::pod_token(&self.config) else {
            return self.mint.next_in(FIRST_PAUSE);
        };
        if self.keeper.token() == Token::Undecided
            && let Some(found) = credentials::minted_before(&self.config)
        {
            self.mint.next_in(until(found.renew_at));
            self.minted_with = Some(pod_token.clone());
            self.decide(Token::Minted(found));
        }
        let rotated = self.minted_with.as_ref().is_some_and(|with| *with != pod_token);
        if !self.mint.is_due() && !rotated {
            return;
        }
        self.minted_with = Some(pod_token.clone());
        match self.mint(&pod_token) {
            Ok(minted) => {
                self.log.info(format_args!(
                    "token={} ends={}",
                    minted.kind,
                    clock::rfc3339(minted.ends)
                ));
                self.mint.succeeded(until(minted.renew_at).max(FIRST_PAUSE));
                self.decide(Token::Minted(minted));
            }
            Err(error) => self.not_minted(&error),
        }
    }

    /// Where the volume is does not change while the pod lives.
    fn find_volume(&mut self) {
        if !self.mint.is_due() {
            return;
        }
        match volume::find(&self.config) {
            Ok(found) => {
                self.mint.succeeded(LONGEST_PAUSE);
                self.decide(Token::Volume(found));
            }
            Err(error) => {
                self.mint.failed();
                self.log
                    .warn(format_args!("token=none because={:?}", format!("{error:#}")));
            }
        }
    }

    /// Asks for a token, and for whom the API server takes its bearer: only one that works replaces another.
    fn mint(&self, pod_token: &[u8]) -> Result<Minted, Error> {
        let deadline = Deadline::after(api::ASKING_TAKES);
        let mut client = api::as_pod(&self.config.server, deadline)?;
        let claims = Claims::read(pod_token).unwrap_or_default();
        let wanted = token::wanted(&self.config, &claims);
        let minted = token::mint(&mut client, &wanted)?;
        let source = Source::Data(Secret::new(minted.token.reveal()));
        let client = api::with_token(&self.config.server, source, &self.config.server.ca_file, deadline)?;
        accepted(client).map(|_| minted)
    }

    fn not_minted(&mut self, error: &Error) {
        self.mint.failed();
        let never = matches!(
            error.class,
            Class::Forbidden | Class::Anonymous | Class::NotFound | Class::BadRequest
        );
        let living = matches!(self.keeper.token(), Token::Minted(m) if m.ends > clock::now());
        if living && !never {
            self.log
                .warn(format_args!("token=kept because={:?}", error.to_string()));
            return;
        }
        if self.config.token_source == TokenSource::Request {
            self.log
                .warn(format_args!("token=none because={:?}", error.to_string()));
            return;
        }
        if !matches!(self.keeper.token(), Token::Copy(_)) {
            self.log
                .info(format_args!("token=copy because={:?}", error.to_string()));
        }
        self.decide(Token::Copy(if never {
            "the API server refuses to give this pod a token of the plugin's own"
        } else {
            "the API server could not be asked for a token of the plugin's own"
        }));
    }

    fn decide(&mut self, token: Token) {
        let mut state = self.keeper.state();
        if state.token == token {
            return;
        }
        state.token = token;
        drop(state);
        self.ring();
    }

    fn ring(&mut self) {
        if let Some(bell) = &mut self.bell {
            // Full means that it rings already.
            let _ = bell.write(&[0]);
        }
    }

    /// Asks once what the node's credential may do, and says what is missing and what is too much.
    fn look_at_rights(&mut self, token: &Path, ca: &Path) {
        if std::mem::replace(&mut self.rights_known, true) {
            return;
        }
        let deadline = Deadline::after(api::ASKING_TAKES);
        let source = Source::File(token.to_path_buf());
        let found = api::with_token(&self.config.server, source, ca, deadline)
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

    /// Notes what an uninstallation would take (see [`crate::leave`]). Asked for until it is known.
    fn look_at_what_can_be_lost(&mut self) {
        if !self.losses_known {
            // Not under the lock of the facts: somebody may ask for them meanwhile.
            let mut seen = self.status.facts().seen;
            self.losses_known = seen.look(&self.config).is_ok();
            self.status.facts().seen = seen;
        }
    }

    /// Asks the API server whether it takes what lies on the node, when that has changed or it is time.
    fn review(&mut self) {
        let files = credentials::in_use(&self.config, &self.keeper.token());
        let [Ok(token), Ok(ca)] = files.each_ref().map(fs::read) else {
            self.status.facts().review = Review::NotAsked;
            self.review.next_in(REVIEW_EVERY);
            return;
        };
        let found = Some((token, ca));
        if !self.review.is_due() && self.reviewed == found {
            return;
        }
        self.reviewed = found;
        let [token_file, ca_file] = files;
        let deadline = Deadline::after(api::ASKING_TAKES);
        let answer = api::with_token(
            &self.config.server,
            Source::File(token_file.clone()),
            &ca_file,
            deadline,
        )
        .and_then(accepted);
        let mut unknown = false;
        let review = match answer {
            Ok(name) => {
                self.review.succeeded(REVIEW_EVERY);
                Review::Accepted(name)
            }
            Err(error) => {
                self.review.failed();
                unknown = error.class == Class::Unauthorized;
                if unknown && matches!(self.keeper.token(), Token::Minted(_)) {
                    // Its node, its account or its signing key is gone: another one is wanted at once.
                    self.mint.next_in(Duration::ZERO);
                }
                Review::Refused(error.to_string())
            }
        };
        if matches!(review, Review::Accepted(_)) {
            self.look_at_rights(&token_file, &ca_file);
            self.look_at_what_can_be_lost();
        }
        let mut facts = self.status.facts();
        if unknown {
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
fn accepted(mut client: Client) -> Result<String, Error> {
    match client.self_subject_review() {
        Ok(user) => Ok(user.username),
        Err(e) if e.class == Class::NotFound => Ok(String::new()),
        Err(e) => Err(e),
    }
}

fn until(when: i64) -> Duration {
    Duration::from_secs(u64::try_from(when.saturating_sub(clock::now())).unwrap_or(0))
}
