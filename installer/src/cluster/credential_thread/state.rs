//! What the credential thread shares with the others: its decisions and the API server's answers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{
    cli::config::{Config, TokenSource},
    cluster::{token::Token, uninstall::Baseline},
};

/// The shared state.
#[derive(Debug)]
pub struct CredentialState {
    facts: Mutex<Facts>,
    /// Signalled when `wake` is set.
    pub(super) woken: Condvar,
}

/// The facts behind the lock.
#[derive(Debug)]
pub(super) struct Facts {
    pub token: Token,
    pub review: Review,
    pub baseline: Baseline,
    /// Files may have changed since the thread last looked.
    pub wake: bool,
}

/// The API server's last answer about the credential on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Review {
    /// It has not been asked yet.
    #[default]
    Pending,
    /// It accepts the credential as this user.
    Accepted(String),
    /// It rejects the credential, or could not be asked, for this reason.
    Rejected(String),
}

impl CredentialState {
    /// The state before the thread has started.
    pub fn new(config: &Config) -> Self {
        let token = match config.token_source {
            TokenSource::Copy => Token::Copy("EVERGREEN_TOKEN_SOURCE is copy"),
            TokenSource::Auto | TokenSource::Request | TokenSource::KubeletVolume => Token::Undecided,
        };
        Self {
            facts: Mutex::new(Facts {
                token,
                review: Review::Pending,
                baseline: Baseline::default(),
                wake: false,
            }),
            woken: Condvar::new(),
        }
    }

    /// Returns the token that belongs on the node.
    pub fn token(&self) -> Token {
        self.lock().token.clone()
    }

    /// Returns the API server's last answer about the credential on the node.
    pub fn review(&self) -> Review {
        self.lock().review.clone()
    }

    /// Returns what an uninstall would take away.
    pub fn baseline(&self) -> Baseline {
        self.lock().baseline
    }

    /// Makes the thread read the files on the node again.
    pub fn wake(&self) {
        self.lock().wake = true;
        self.woken.notify_all();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Facts> {
        // Every change is a single assignment, so a thread that panicked has left the facts consistent.
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
