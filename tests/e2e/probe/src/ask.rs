//! A client: connects, prints the one line it is answered with.

use anyhow::{Context, Result};
use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    process::ExitCode,
    time::Duration,
};

/// Longer than any answer on one machine takes; shorter than the patience of a person.
const PATIENCE: Duration = Duration::from_secs(3);

/// Fails when nobody answers in time.
pub(crate) fn ask(address: SocketAddr) -> Result<ExitCode> {
    let stream =
        TcpStream::connect_timeout(&address, PATIENCE).with_context(|| format!("connect to {address}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .with_context(|| format!("answer of {address}"))?;
    writeln!(io::stdout(), "{}", line.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
