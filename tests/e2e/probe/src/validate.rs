//! What Linkerd's network validator does as the first init container of a pod: a connection to somewhere else must
//! come back to its own listener on the proxy's outbound port, with the token it sent. Exit code 95 when it does not.

use anyhow::{Context, Result};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{self, ExitCode},
    sync::mpsc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The validator's own default.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What the repair controller looks for.
const NOT_REDIRECTED: u8 = 95;

/// Listens, connects, and waits for the connection to come back.
pub(crate) fn validate(listen: SocketAddr, connect: SocketAddr) -> Result<ExitCode> {
    let listener = TcpListener::bind(listen).with_context(|| format!("listen on {listen}"))?;
    let token = token();
    let (came_back, answer) = mpsc::channel();
    let server_token = token.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(server_token.as_bytes());
        }
    });
    thread::spawn(move || {
        let _ = came_back.send(returns(connect, &token));
    });
    match answer.recv_timeout(TIMEOUT) {
        Ok(Ok(true)) => Ok(ExitCode::SUCCESS),
        Ok(Ok(false)) => Ok(failed(&format!(
            "{connect} answered with something else than our own token"
        ))),
        Ok(Err(error)) => Ok(failed(&format!("{error:#}"))),
        Err(_) => Ok(failed(&format!(
            "{connect} did not answer within {} s",
            TIMEOUT.as_secs()
        ))),
    }
}

fn failed(reason: &str) -> ExitCode {
    eprintln!("probe: traffic is not redirected to the proxy: {reason}");
    ExitCode::from(NOT_REDIRECTED)
}

fn returns(connect: SocketAddr, token: &str) -> Result<bool> {
    let mut stream =
        TcpStream::connect_timeout(&connect, TIMEOUT).with_context(|| format!("connect to {connect}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut seen = vec![0; token.len()];
    stream
        .read_exact(&mut seen)
        .with_context(|| format!("answer of {connect}"))?;
    Ok(seen == token.as_bytes())
}

/// Different for every run, so that another pod's validator cannot be taken for this one.
fn token() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}\n", process::id(), now.as_nanos())
}
