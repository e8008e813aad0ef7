//! One caller of the crowd.

use std::{
    io::{self, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use socket2::{Domain, Socket, Type};

use crate::{
    answer::{self, Answer},
    tally::Tally,
};

/// Longer than the minute a server gives a request.
const PATIENCE: Duration = Duration::from_secs(70);
/// What a slow reader's kernel takes in for it; the kernel has a least of its own.
const SMALL_BUFFER: usize = 4 << 10;
/// Between attempts that got no answer at all, so that a full backlog can drain.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What all callers have in common.
pub(crate) struct Caller {
    pub(crate) server: SocketAddr,
    pub(crate) name: ServerName<'static>,
    pub(crate) tls: Arc<ClientConfig>,
    /// Head and all.
    pub(crate) request: String,
    /// How often to ask.
    pub(crate) each: usize,
    /// How long to wait before an answer is read to its end.
    pub(crate) hold: Duration,
    /// A connection for each request.
    pub(crate) fresh: bool,
    /// How long to leave the server alone after a 429.
    pub(crate) pause: Duration,
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) tally: Arc<Tally>,
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

impl Caller {
    /// What the thread of a caller does.
    pub(crate) fn ask_again_and_again(&self) {
        let mut kept = None;
        for _ in 0..self.each {
            if self.over.load(Relaxed) {
                return;
            }
            let begun = Instant::now();
            let answer = self.ask(&mut kept);
            if self.over.load(Relaxed) {
                return;
            }
            match answer {
                Ok(answer) => {
                    self.tally.add(&answer, begun.elapsed());
                    if answer.status == 429 {
                        thread::sleep(self.pause);
                    }
                }
                Err(error) => {
                    kept = None;
                    self.tally.add_failure(&error);
                    thread::sleep(AFTER_FAILURE);
                }
            }
        }
    }

    fn ask(&self, kept: &mut Option<Stream>) -> io::Result<Answer> {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        let _asking = self.tally.one_more_asks();
        stream.write_all(self.request.as_bytes())?;
        stream.flush()?;
        let mut received = Vec::new();
        let answer = answer::head(&mut stream, &mut received)?;
        // Who is refused has nothing to hold.
        if answer.status == 200 && !self.hold.is_zero() {
            thread::sleep(self.hold);
        }
        answer.skip_body(&mut stream, received)?;
        if !self.fresh {
            *kept = Some(stream);
        }
        Ok(answer)
    }

    fn connect(&self) -> io::Result<Stream> {
        let socket = Socket::new(Domain::for_address(self.server), Type::STREAM, None)?;
        if !self.hold.is_zero() {
            socket.set_recv_buffer_size(SMALL_BUFFER)?;
        }
        socket.connect(&self.server.into())?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let tls =
            ClientConnection::new(Arc::clone(&self.tls), self.name.clone()).map_err(io::Error::other)?;
        Ok(StreamOwned::new(tls, stream))
    }
}
