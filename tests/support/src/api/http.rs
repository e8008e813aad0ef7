//! HTTP/1.1 as far as tests need it: one request read, one answer written.

use std::{
    io::{self, BufRead, Read, Write},
    thread,
};

use super::answer::{Answer, Framing, Pace};

/// A request as read from the wire.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET`, `POST`, ...
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// What follows `?`, or nothing.
    pub query: String,
    /// Header names in lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// The body; empty when there is none.
    pub body: Vec<u8>,
}

/// What became of writing an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The connection goes on.
    Whole,
    /// The connection ends here.
    Last,
    /// Nothing more is to be sent, and the client is to wait for it.
    Stalled,
    /// The connection is to be reset.
    Reset,
}

impl Request {
    /// The value of a header, its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// The value of a query parameter.
    pub fn query_value(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .find_map(|pair| pair.split_once('=').filter(|(n, _)| *n == name))
            .map(|(_, v)| v)
    }

    /// Reads one request; none when the client has closed the connection.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(io::Error::other(format!("not a request line: {line:?}")));
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            request
                .headers
                .push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        if let Some(length) = request.header("content-length").and_then(|v| v.parse().ok()) {
            request.body = vec![0; length];
            from.read_exact(&mut request.body)?;
        } else if request.header("transfer-encoding") == Some("chunked") {
            read_chunks(from, &mut request.body)?;
        }
        Ok(Some(request))
    }
}

fn read_chunks(from: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let mut size = String::new();
        from.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        from.by_ref().take(size).read_to_end(body)?;
        from.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(());
        }
    }
}

/// Writes an answer at its pace.
pub(crate) fn write(to: &mut impl Write, answer: &Answer) -> io::Result<Written> {
    match answer.pace {
        Pace::Never => return Ok(Written::Stalled),
        Pace::Reset => return Ok(Written::Reset),
        Pace::After(pause) => thread::sleep(pause),
        _ => {}
    }
    let chunked = match answer.framing {
        Framing::Go => answer.body.len() > 2048,
        Framing::Length | Framing::UntilClose => false,
        Framing::Chunked | Framing::CutChunks => true,
    };
    let mut head = format!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status));
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "Audit-Id: 5f6c3a55-8a0f-4c0e-9d57-0c4e5bd0f7f1\r\nDate: Mon, 30 Nov 2026 00:00:00 GMT\r\n";
    let last = answer.close || matches!(answer.framing, Framing::CutChunks | Framing::UntilClose);
    if last {
        head += "Connection: close\r\n";
    }
    head += &match answer.framing {
        Framing::UntilClose => "\r\n".to_owned(),
        _ if chunked => "Transfer-Encoding: chunked\r\n\r\n".to_owned(),
        _ => format!("Content-Length: {}\r\n\r\n", answer.body.len()),
    };
    let body = if chunked {
        chunks(&answer.body, answer.framing)
    } else {
        answer.body.clone()
    };
    write_paced(to, head.into_bytes(), &body, answer, last)
}

fn write_paced(
    to: &mut impl Write,
    mut head: Vec<u8>,
    body: &[u8],
    answer: &Answer,
    last: bool,
) -> io::Result<Written> {
    let part = |bytes: usize| &body[..bytes.min(body.len())];
    let (written, then) = match answer.pace {
        Pace::StallAfter(bytes) => (part(bytes), Written::Stalled),
        Pace::ResetAfter(bytes) => (part(bytes), Written::Reset),
        Pace::Trickle(pause) => {
            to.write_all(&head)?;
            for byte in body {
                to.write_all(&[*byte])?;
                to.flush()?;
                thread::sleep(pause);
            }
            return Ok(Written::Whole);
        }
        _ if last => (body, Written::Last),
        _ => (body, Written::Whole),
    };
    head.extend_from_slice(written);
    to.write_all(&head)?;
    to.flush()?;
    Ok(then)
}

fn chunks(body: &[u8], framing: Framing) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 64);
    for chunk in body.chunks(4096) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    if framing != Framing::CutChunks {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    out
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}
