//! The least a static program can do for the same job: what `scripts/bench` measures against.
//!
//! - `nothing` starts and ends.
//! - `get ADDRESS CA-FILE TOKEN-FILE PATH` sends one HTTPS request and reads the answer: no client library, no JSON.
//! - `time PROGRAM ARGUMENTS...` runs a program and prints what it took. It is here because the kernel counts the
//!   memory of the process that starts another one against the new one, so a small process has to start it.

mod child;

use std::{
    env,
    error::Error,
    fs,
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    process::ExitCode,
    sync::Arc,
};

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["nothing"] => Ok(()),
        ["get", address, ca, token, path] => get(address, ca, token, path),
        ["time", program, ref arguments @ ..] => time(program, arguments),
        _ => Err(
            "usage: evergreen-floor nothing | get ADDRESS CA TOKEN PATH | time PROGRAM ARGUMENTS...".into(),
        ),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "evergreen-floor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn get(address: &str, ca: &str, token: &str, path: &str) -> Result<(), Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    for certificate in rustls_pemfile::certs(&mut BufReader::new(fs::File::open(ca)?)) {
        roots.add(certificate?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (host, _) = address.rsplit_once(':').ok_or("an address is HOST:PORT")?;
    let session = ClientConnection::new(Arc::new(config), host.to_owned().try_into()?)?;
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut stream = StreamOwned::new(session, stream);
    let token = fs::read_to_string(token)?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
        token.trim()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::with_capacity(32 * 1024);
    let mut piece = [0; 16 * 1024];
    // The server keeps the connection, so the length alone says where the answer ends.
    while !is_whole(&answer) {
        match stream.read(&mut piece)? {
            0 => break,
            n => answer.extend_from_slice(&piece[..n]),
        }
    }
    if answer.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    Err(format!(
        "not a 200: {}",
        String::from_utf8_lossy(&answer[..answer.len().min(200)])
    )
    .into())
}

fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|w| w == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    match head
        .split("content-length:")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
    {
        Some(length) => length.parse::<usize>().is_ok_and(|n| answer.len() >= end + 4 + n),
        // Chunked, as the API server sends what is not small; the last chunk is empty.
        None => answer.ends_with(b"\r\n0\r\n\r\n"),
    }
}

/// Prints one line: wall ns, user+system µs, peak resident KiB, exit code. The program's own stdout goes to stderr.
fn time(program: &str, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let taken = child::run(program, arguments)?;
    let line = format!(
        "{} {} {} {}\n",
        taken.wall.as_nanos(),
        taken.cpu.as_micros(),
        taken.peak_kib,
        taken.exit_code
    );
    Ok(io::stdout().write_all(line.as_bytes())?)
}
