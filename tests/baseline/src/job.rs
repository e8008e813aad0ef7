//! The plugin's job at its minimum: one HTTPS GET and one batch of rules, without client library, JSON or checks.

use std::{
    error::Error,
    fs::{self, File},
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    sync::Arc,
};

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};

use crate::sys;

/// Sends one request and reads the answer, which must be a 200.
pub(crate) fn get(address: &str, ca: &str, token: &str, path: &str) -> Result<(), Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    for certificate in rustls_pemfile::certs(&mut BufReader::new(File::open(ca)?)) {
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
    // The server keeps the connection open, so only the length shows the end of the answer.
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
        // Chunked, as the API server sends larger answers; the last chunk is empty.
        None => answer.ends_with(b"\r\n0\r\n\r\n"),
    }
}

/// Enters the namespace and sends the netlink batch in that file to the kernel. The last message before the batch's end
/// requests the acknowledgement.
pub(crate) fn rules(namespace: &str, batch: &str) -> Result<(), Box<dyn Error>> {
    sys::enter(&File::open(namespace)?)?;
    let mut answer = [0; 4096];
    let length = sys::ask_netfilter(&fs::read(batch)?, &mut answer)?;
    // The error follows the 16-byte header: minus the errno, or 0.
    let errno = answer[..length]
        .get(16..20)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(libc::EBADMSG, |bytes| -i32::from_ne_bytes(bytes));
    match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno).into()),
    }
}
