//! The thread that talks to the API server, so that no turn ever waits for it.
//!
//! It keeps a token of the plugin's own (see [`super::token`]) and asks the API server whether it takes what lies on the
//! node. What it comes to is left for the turns and for `serve`; it touches no file itself.

mod review;
mod schedule;
mod work;

use std::{
    os::unix::net::UnixStream,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use anyhow::{Context, Result};
use evergreen_kube::log::Log;

use self::work::Work;
use crate::{
    cli::config::{Config, TokenSource},
    cluster::{token::Token, volume},
    health::status::Status,
};

/// The thread's side that everybody sees.
#[derive(Debug)]
pub struct CredentialThread {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    token: Token,
    /// Somebody has something to show.
    woken: bool,
}

impl CredentialThread {
    /// Starts the thread; a byte is written to `bell` whenever a turn is due because of it.
    pub fn start(config: &Config, status: &Arc<Status>, bell: UnixStream, log: Log) -> Result<Arc<Self>> {
        let credential_thread = Arc::new(Self::new(config));
        let work = Work::new(
            config.clone(),
            Arc::clone(&credential_thread),
            Arc::clone(status),
            Some(bell),
            log,
        );
        thread::Builder::new()
            .name("credential_thread".to_owned())
            .spawn(move || work.for_ever())
            .context("start a thread")?;
        Ok(credential_thread)
    }

    /// One that asks nobody, for a turn that must not wait.
    pub fn new(config: &Config) -> Self {
        let token = match config.token_source {
            TokenSource::Copy => Token::Copy("EVERGREEN_TOKEN_SOURCE is copy"),
            TokenSource::Auto | TokenSource::Request | TokenSource::KubeletVolume => Token::Undecided,
        };
        Self {
            state: Mutex::new(State { token, woken: false }),
            changed: Condvar::new(),
        }
    }

    /// Which token belongs on the node.
    pub fn token(&self) -> Token {
        self.state().token.clone()
    }

    /// Tells the thread that files may have changed.
    pub fn wake(&self) {
        self.state().woken = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides once, for an installer that does not stay. It renews nothing, so the kubelet's own volume is the best there is.
pub fn decide_once(config: &Config, log: Log) -> Token {
    if config.token_source == TokenSource::Auto {
        return volume::find(config).map_or_else(
            |error| {
                log.warn(format_args!(
                    "token=copy, which nobody renews, because={:?}",
                    format!("{error:#}")
                ));
                Token::Copy(
                    "an installer that does not stay renews nothing, and the kubelet's volume was not found",
                )
            },
            Token::Volume,
        );
    }
    let credential_thread = Arc::new(CredentialThread::new(config));
    Work::new(
        config.clone(),
        Arc::clone(&credential_thread),
        Arc::default(),
        None,
        log,
    )
    .keep_token();
    credential_thread.token()
}
