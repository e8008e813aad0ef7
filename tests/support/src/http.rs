//! One HTTP request without TLS, as a probe or Prometheus sends it.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
};

/// Gets a path from a server on 127.0.0.1 and returns the whole answer, its head included.
pub fn get(port: u16, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
