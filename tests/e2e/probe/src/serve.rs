//! Servers that answer every connection with one line: their name and where the client was going.

use anyhow::{Context, Result, bail};
use socket2::SockRef;
use std::{
    io::Write,
    net::{SocketAddr, TcpListener, TcpStream},
    process::ExitCode,
    thread,
};

/// One server: what it calls itself, and where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    name: String,
    address: SocketAddr,
}

/// `--name NAME ADDRESS`, once or more.
pub(crate) fn parse(words: &[&str]) -> Result<Vec<Server>> {
    let mut servers = Vec::new();
    for three in words.chunks(3) {
        let ["--name", name, address] = three else {
            bail!("expected --name NAME ADDRESS, not {three:?}")
        };
        let address = address
            .parse()
            .with_context(|| format!("listen address {address}"))?;
        servers.push(Server {
            name: (*name).to_owned(),
            address,
        });
    }
    if servers.is_empty() {
        bail!("no server was named");
    }
    Ok(servers)
}

/// Listens on all of them before the first connection is taken, then serves for ever.
pub(crate) fn serve(servers: &[Server]) -> Result<ExitCode> {
    let mut listeners = Vec::new();
    for server in servers {
        let listener =
            TcpListener::bind(server.address).with_context(|| format!("listen on {}", server.address))?;
        listeners.push((server.name.clone(), listener));
    }
    let threads: Vec<_> = listeners
        .into_iter()
        .map(|(name, listener)| {
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    // A client that has gone is the client's business.
                    let _ = answer(&name, stream);
                }
            })
        })
        .collect();
    for thread in threads {
        let _ = thread.join();
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(name: &str, mut stream: TcpStream) -> Result<()> {
    let target = meant_for(&stream)?;
    writeln!(stream, "{name} for {target}")?;
    Ok(())
}

/// Where the client was going before the kernel redirected it; without a redirect, where it arrived.
fn meant_for(stream: &TcpStream) -> Result<SocketAddr> {
    let local = stream.local_addr()?;
    // A listener on `[::]` sees an IPv4 connection as ::ffff:a.b.c.d; the kernel keeps its target as IPv4.
    let local = SocketAddr::new(local.ip().to_canonical(), local.port());
    let socket = SockRef::from(stream);
    let original = if local.is_ipv4() {
        socket.original_dst_v4()
    } else {
        socket.original_dst_v6()
    };
    Ok(original
        .ok()
        .and_then(|address| address.as_socket())
        .unwrap_or(local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_is_a_name_and_an_address() {
        let servers =
            parse(&["--name", "in", "0.0.0.0:4143", "--name", "out", "127.0.0.1:4140"]).expect("parses");
        assert_eq!(servers.len(), 2);
        assert_eq!(servers[1].name, "out");
    }

    #[test]
    fn a_server_without_an_address_is_refused() {
        assert!(parse(&["--name", "in"]).is_err());
        assert!(parse(&[]).is_err());
    }
}
