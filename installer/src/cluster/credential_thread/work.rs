//! The thread's own side: which token belongs on the node, and when another one is asked for.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    sync::{Arc, PoisonError},
    time::Duration,
};

use evergreen_kube::{Class, Error, Secret, Source, claims::Claims, clock, deadline::Deadline, log::Log};

use super::{
    CredentialThread,
    review::{Bearer, Reviewer, accepted},
    schedule::{FIRST_PAUSE, LONGEST_PAUSE, Schedule},
};
use crate::{
    cli::config::{Config, TokenSource},
    cluster::{
        api, identity,
        token::{self, Minted, Token},
        volume,
    },
    health::status::Status,
};

/// The thread's own side.
pub struct Work {
    config: Config,
    credential_thread: Arc<CredentialThread>,
    bell: Option<UnixStream>,
    log: Log,
    /// The pod's token when the last one was minted with it.
    minted_with: Option<Vec<u8>>,
    mint: Schedule,
    reviewer: Reviewer,
}

impl Work {
    /// Nothing is known yet, and everything due.
    pub fn new(
        config: Config,
        credential_thread: Arc<CredentialThread>,
        status: Arc<Status>,
        bell: Option<UnixStream>,
        log: Log,
    ) -> Self {
        Self {
            reviewer: Reviewer::new(config.clone(), status, log),
            config,
            credential_thread,
            bell,
            log,
            minted_with: None,
            mint: Schedule::now(),
        }
    }

    /// Until the process ends.
    pub fn for_ever(mut self) {
        loop {
            self.keep_token();
            if self.reviewer.look(&self.credential_thread.token()) == Bearer::Unknown
                && matches!(self.credential_thread.token(), Token::Minted(_))
            {
                // Its node, its account or its signing key is gone: another one is wanted at once.
                self.mint.next_in(Duration::ZERO);
            }
            let mut state = self.credential_thread.state();
            while !state.woken && !self.mint.is_due() && !self.reviewer.due().is_due() {
                let wait = self.mint.left().min(self.reviewer.due().left());
                state = self
                    .credential_thread
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
        let Ok(pod_token) = identity::pod_token(&self.config.server) else {
            return self.mint.next_in(FIRST_PAUSE);
        };
        if self.credential_thread.token() == Token::Undecided
            && let Some(found) = token::minted_before(&self.config)
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
        let living = matches!(self.credential_thread.token(), Token::Minted(m) if m.ends > clock::now());
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
        if !matches!(self.credential_thread.token(), Token::Copy(_)) {
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
        let mut state = self.credential_thread.state();
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
}

fn until(when: i64) -> Duration {
    Duration::from_secs(u64::try_from(when.saturating_sub(clock::now())).unwrap_or(0))
}
