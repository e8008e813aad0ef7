//! The thread that talks to the API server, so that no reconcile pass waits for it.
//!
//! It obtains a token for the plugin (see [`super::token`]) and asks the API server whether it accepts the credential on the
//! node. It only publishes what it finds out: reconcile passes write the files, `health` reports.

mod review;
mod schedule;
mod state;
mod worker;

use std::{os::unix::net::UnixStream, sync::Arc, thread};

use anyhow::{Context, Result};
use evergreen_kube::log::Log;

pub use self::state::{CredentialState, Review};
use self::worker::Worker;
use crate::{
    cli::config::{Config, TokenSource},
    cluster::{token::Token, volume},
};

/// Starts the thread. It writes a byte to `waker` whenever it has decided on another token.
pub fn start(shared: &Arc<CredentialState>, config: &Config, waker: UnixStream, log: Log) -> Result<()> {
    let worker = Worker::new(config.clone(), Arc::clone(shared), Some(waker), log);
    thread::Builder::new()
        .name("credential".to_owned())
        .spawn(move || worker.run())
        .context("start the credential thread")?;
    Ok(())
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
    let shared = Arc::new(CredentialState::new(config));
    Worker::new(config.clone(), Arc::clone(&shared), None, log).ensure_token();
    shared.token()
}
