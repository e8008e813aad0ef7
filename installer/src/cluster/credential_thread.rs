//! The thread that talks to the API server, so that no reconcile pass waits for it.
//!
//! It obtains a token for the plugin (see [`super::token`]) and asks the API server whether it accepts the credential on the
//! node. It only publishes what it finds out: reconcile passes write the files, `health` reports.

mod review;
mod schedule;
mod worker;

use std::{
    os::unix::net::UnixStream,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use anyhow::{Context, Result};
use evergreen_kube::log::Log;

pub use self::review::Review;
use self::worker::Worker;
use crate::{
    cli::config::{Config, TokenSource},
    cluster::{token::Token, uninstall::Baseline, volume},
};

/// What the thread shares with the others.
#[derive(Debug)]
pub struct CredentialThread {
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Debug)]
struct State {
    token: Token,
    review: Review,
    baseline: Baseline,
    /// Files may have changed since the thread last looked.
    wake: bool,
}

impl CredentialThread {
    /// The state before the thread has started.
    pub fn new(config: &Config) -> Self {
        let token = match config.token_source {
            TokenSource::Copy => Token::Copy("EVERGREEN_TOKEN_SOURCE is copy"),
            TokenSource::Auto | TokenSource::Request | TokenSource::KubeletVolume => Token::Undecided,
        };
        Self {
            state: Mutex::new(State {
                token,
                review: Review::Pending,
                baseline: Baseline::default(),
                wake: false,
            }),
            woken: Condvar::new(),
        }
    }

    /// Starts the thread. It writes a byte to `waker` whenever it has decided on another token.
    pub fn start(self: &Arc<Self>, config: &Config, waker: UnixStream, log: Log) -> Result<()> {
        let worker = Worker::new(config.clone(), Arc::clone(self), Some(waker), log);
        thread::Builder::new()
            .name("credential".to_owned())
            .spawn(move || worker.run())
            .context("start the credential thread")?;
        Ok(())
    }

    /// Returns the token that belongs on the node.
    pub fn token(&self) -> Token {
        self.state().token.clone()
    }

    /// Returns the API server's last answer about the credential on the node.
    pub fn review(&self) -> Review {
        self.state().review.clone()
    }

    /// Returns what an uninstall would take away.
    pub fn baseline(&self) -> Baseline {
        self.state().baseline
    }

    /// Makes the thread read the files on the node again.
    pub fn wake(&self) {
        self.state().wake = true;
        self.woken.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is a single assignment, so a thread that panicked has left the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides once, for `once`. It renews nothing afterwards, so the kubelet's own volume is the best source.
pub fn decide_once(config: &Config, log: Log) -> Token {
    if config.token_source == TokenSource::Auto {
        return volume::find(config).map_or_else(
            |error| {
                log.with(&[("error", &format_args!("{error:#}"))])
                    .warn("using a copy of the pod's token that is not renewed");
                Token::Copy("`once` does not renew tokens, and the kubelet's volume was not found")
            },
            Token::Volume,
        );
    }
    let shared = Arc::new(CredentialThread::new(config));
    Worker::new(config.clone(), Arc::clone(&shared), None, log).ensure_token();
    shared.token()
}
