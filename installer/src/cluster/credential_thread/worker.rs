//! The loop of the credential thread: which token belongs on the node, and when to request the next one.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    sync::{Arc, PoisonError},
    time::Duration,
};

use evergreen_kube::{Class, Error, Secret, Source, claims::Claims, clock, deadline::Deadline, log::Log};

use super::{
    review::{Reviewer, accepted},
    schedule::{FIRST_PAUSE, LONGEST_PAUSE, Schedule},
    state::CredentialState,
};
use crate::{
    cli::config::{Config, TokenSource},
    cluster::{
        api, existing_token, identity,
        token::{self, Minted, Token},
        volume,
    },
};

/// The thread's private state.
pub struct Worker {
    config: Config,
    shared: Arc<CredentialState>,
    waker: Option<UnixStream>,
    log: Log,
    /// The pod's token at the last request.
    requested_with: Option<Vec<u8>>,
    request: Schedule,
    reviewer: Reviewer,
}

impl Worker {
    /// A worker to which everything is due.
    pub fn new(config: Config, shared: Arc<CredentialState>, waker: Option<UnixStream>, log: Log) -> Self {
        Self {
            reviewer: Reviewer::new(config.clone(), Arc::clone(&shared), log),
            config,
            shared,
            waker,
            log,
            requested_with: None,
            request: Schedule::now(),
        }
    }

    /// Runs until the process ends.
    pub fn run(mut self) {
        loop {
            self.ensure_token();
            let token = self.shared.token();
            if self.reviewer.review(&token) && matches!(token, Token::Minted(_)) {
                // Its node, its ServiceAccount or its signing key is gone: replace it at once.
                self.request.next_in(Duration::ZERO);
            }
            self.wait();
        }
    }

    /// Waits until something is due or files may have changed.
    fn wait(&self) {
        let mut state = self.shared.lock();
        while !state.wake && !self.request.is_due() && !self.reviewer.due().is_due() {
            let wait = self.request.left().min(self.reviewer.due().left());
            let woken = self.shared.woken.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.wake = false;
    }

    /// Obtains or renews the plugin's token as far as the configuration asks for one and it is due.
    pub fn ensure_token(&mut self) {
        match self.config.token_source {
            TokenSource::Copy => return self.request.next_in(LONGEST_PAUSE),
            TokenSource::KubeletVolume => return self.find_volume(),
            TokenSource::Auto | TokenSource::Request => {}
        }
        // The pod's token authenticates the request.
        let Ok(pod_token) = identity::pod_token(&self.config.server) else {
            return self.request.next_in(FIRST_PAUSE);
        };
        if self.shared.token() == Token::Undecided
            && let Some(found) = existing_token::find(&self.config)
        {
            self.request.next_in(until(found.renew_at));
            self.requested_with = Some(pod_token.clone());
            self.publish(Token::Minted(found));
        }
        let rotated = self
            .requested_with
            .as_ref()
            .is_some_and(|with| *with != pod_token);
        if !self.request.is_due() && !rotated {
            return;
        }
        self.requested_with = Some(pod_token.clone());
        match self.request_token(&pod_token) {
            Ok(minted) => {
                self.log
                    .with(&[
                        ("source", &minted.kind.word()),
                        ("expires", &clock::rfc3339(minted.ends)),
                    ])
                    .info("token issued");
                self.request.succeeded(until(minted.renew_at).max(FIRST_PAUSE));
                self.publish(Token::Minted(minted));
            }
            Err(error) => self.fall_back(&error),
        }
    }

    /// Finds the kubelet's volume, which stays where it is while the pod lives.
    fn find_volume(&mut self) {
        if !self.request.is_due() {
            return;
        }
        match volume::find(&self.config) {
            Ok(found) => {
                self.request.succeeded(LONGEST_PAUSE);
                self.publish(Token::Volume(found));
            }
            Err(error) => {
                self.request.failed();
                self.log
                    .with(&[("error", &format_args!("{error:#}"))])
                    .warn("no token for the plugin");
            }
        }
    }

    /// Requests a token, and returns it only if the API server accepts it: an unusable token must not replace another.
    fn request_token(&self, pod_token: &[u8]) -> Result<Minted, Error> {
        let deadline = Deadline::after(api::TIMEOUT);
        let mut client = api::as_pod(&self.config.server, deadline)?;
        let claims = Claims::read(pod_token).unwrap_or_default();
        let wanted = token::wanted(&self.config, &claims);
        let minted = token::mint(&mut client, &wanted)?;
        let source = Source::Data(Secret::new(minted.token.reveal()));
        let client = api::with_token(&self.config.server, source, &self.config.server.ca_file, deadline)?;
        accepted(client).map(|_| minted)
    }

    /// Decides what the plugin uses after a request has failed.
    fn fall_back(&mut self, error: &Error) {
        self.request.failed();
        let line = [("error", error as &dyn std::fmt::Display)];
        let line = self.log.with(&line);
        let permanent = matches!(
            error.class,
            Class::Forbidden | Class::Anonymous | Class::NotFound | Class::BadRequest
        );
        let current = self.shared.token();
        if !permanent && matches!(&current, Token::Minted(minted) if minted.ends > clock::now()) {
            return line.warn("token not renewed, keeping the current one");
        }
        if self.config.token_source == TokenSource::Request {
            return line.warn("no token for the plugin");
        }
        if !matches!(current, Token::Copy(_)) {
            line.info("using a copy of the pod's token");
        }
        self.publish(Token::Copy(if permanent {
            "the API server refuses to issue a token for the plugin"
        } else {
            "the API server could not be asked for a token for the plugin"
        }));
    }

    fn publish(&mut self, token: Token) {
        let mut state = self.shared.lock();
        if state.token == token {
            return;
        }
        state.token = token;
        drop(state);
        if let Some(waker) = &mut self.waker {
            // A full pipe wakes the main loop as well.
            let _ = waker.write(&[0]);
        }
    }
}

/// Returns the time from now until `when`, in seconds since 1970; zero when that has passed.
fn until(when: i64) -> Duration {
    Duration::from_secs(u64::try_from(when.saturating_sub(clock::now())).unwrap_or(0))
}
