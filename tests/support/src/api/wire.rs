//! What goes over the wire, counted where the server's sockets are read and written.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::Shared;

/// Bytes of TCP payload, both ways, since the start or the last time they were cleared.
#[derive(Debug, Default)]
pub(crate) struct Count {
    came_in: AtomicU64,
    went_out: AtomicU64,
}

/// A connection whose bytes are counted.
pub(crate) struct Counted {
    tcp: TcpStream,
    shared: Arc<Shared>,
}

impl Count {
    pub(crate) fn so_far(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.came_in), read(&self.went_out))
    }

    pub(crate) fn clear(&self) {
        self.came_in.store(0, Ordering::Relaxed);
        self.went_out.store(0, Ordering::Relaxed);
    }
}

impl Counted {
    pub(crate) fn new(tcp: TcpStream, shared: &Arc<Shared>) -> Self {
        let shared = Arc::clone(shared);
        Self { tcp, shared }
    }
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.tcp.read(to)?;
        self.shared
            .wire
            .came_in
            .fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

impl Write for Counted {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let length = self.tcp.write(from)?;
        self.shared
            .wire
            .went_out
            .fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}
