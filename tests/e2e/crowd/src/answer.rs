//! As much of an HTTP/1.1 answer as a crowd wants to know: its status, what it says about asking again, where it ends.

use std::io::{self, Read};

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Seconds; 0 when the answer does not say.
    pub(crate) retry_after: u64,
    /// Bytes of the body; none when it comes in chunks.
    length: Option<usize>,
}

/// Reads up to the end of the head. What came after it stays in `received`.
pub(crate) fn head(stream: &mut impl Read, received: &mut Vec<u8>) -> io::Result<Answer> {
    loop {
        if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = received.split_off(end + 4);
            let head = std::mem::replace(received, rest);
            return parse(&String::from_utf8_lossy(&head));
        }
        more(stream, received)?;
    }
}

fn parse(head: &str) -> io::Result<Answer> {
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let field = |wanted: &str| {
        let (_, value) = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        value.trim().parse().ok()
    };
    Ok(Answer {
        status: status.ok_or_else(|| io::Error::other("the answer is not HTTP"))?,
        retry_after: field("retry-after").unwrap_or_default() as u64,
        length: field("content-length"),
    })
}

impl Answer {
    /// Reads to the end of the body, of which this much is there. Chunks of JSON or of plain text hold no line end of
    /// their own kind, so the last chunk is known by how it looks.
    pub(crate) fn skip_body(&self, stream: &mut impl Read, mut received: Vec<u8>) -> io::Result<()> {
        let is_whole = |received: &[u8]| match self.length {
            Some(length) => received.len() >= length,
            None => received.ends_with(b"\r\n0\r\n\r\n"),
        };
        while !is_whole(&received) {
            more(stream, &mut received)?;
        }
        Ok(())
    }
}

/// Reads once more into `received`; an end is an error.
fn more(stream: &mut impl Read, received: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    match stream.read(&mut buffer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => {
            received.extend_from_slice(&buffer[..n]);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Answer> {
        let mut received = Vec::new();
        let mut stream = text.as_bytes();
        let answer = head(&mut stream, &mut received)?;
        answer.skip_body(&mut stream, received)?;
        Ok(answer)
    }

    #[test]
    fn a_429_says_when_to_ask_again() {
        let answer =
            read("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 4\r\nContent-Length: 5\r\n\r\nbusy\n");
        let wanted = Answer {
            status: 429,
            retry_after: 4,
            length: Some(5),
        };
        assert_eq!(answer.expect("reads"), wanted);
    }

    #[test]
    fn a_body_in_chunks_ends_with_an_empty_one() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(
            read(&format!("{head}2\r\n{{}}\r\n0\r\n\r\n"))
                .expect("reads")
                .status,
            200
        );
        assert!(read(&format!("{head}2\r\n{{}}\r\n")).is_err());
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        assert!(read("hello\r\n\r\n").is_err());
    }
}
