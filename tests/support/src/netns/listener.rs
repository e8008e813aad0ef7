//! Who answers: listeners in a namespace that tell who they are and where the client wanted to go, and clients that ask.

use std::{
    fmt,
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{fd::AsFd, unix::net::UnixStream},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Namespace, sys};

/// Long enough for a busy machine; a connection inside one kernel takes microseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// TCP and UDP listeners in a namespace that tell who they are and where the client wanted to go. Stops when dropped.
#[derive(Debug)]
pub struct Listener {
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

/// What a listener said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The listener's own address and port: where the connection ended.
    pub at: SocketAddr,
    /// The client as the listener saw it.
    pub from: SocketAddr,
    /// `SO_ORIGINAL_DST`: where the client wanted to go. None where conntrack does not know the connection.
    pub original: Option<SocketAddr>,
}

// === impl Listener ===

impl Listener {
    /// Listens on all the addresses, on TCP and on UDP.
    pub fn new(namespace: &Namespace, addresses: &[SocketAddr]) -> Self {
        Self::on(namespace, addresses, addresses)
    }

    /// Listens on some addresses on TCP, on some on UDP.
    pub fn on(namespace: &Namespace, tcp: &[SocketAddr], udp: &[SocketAddr]) -> Self {
        let (stop, stopped) = UnixStream::pair().expect("a pair of sockets");
        let sockets = namespace.run(|| -> io::Result<_> {
            let tcp: io::Result<Vec<_>> = tcp.iter().map(TcpListener::bind).collect();
            let udp: io::Result<Vec<_>> = udp.iter().map(UdpSocket::bind).collect();
            Ok((tcp?, udp?))
        });
        let (tcp, udp) = sockets.unwrap_or_else(|e| panic!("cannot listen on {tcp:?} in {namespace}: {e}"));
        // A client may be gone between poll and accept; the thread must not wait for the next one.
        for socket in &tcp {
            socket.set_nonblocking(true).expect("a socket of ours");
        }
        for socket in &udp {
            socket.set_nonblocking(true).expect("a socket of ours");
        }
        let thread = thread::spawn(move || serve(&stopped, &tcp, &udp));
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.stop.write_all(b"x");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(stopped: &UnixStream, tcp: &[TcpListener], udp: &[UdpSocket]) {
    let mut polled = vec![stopped.as_fd()];
    polled.extend(tcp.iter().map(AsFd::as_fd));
    polled.extend(udp.iter().map(AsFd::as_fd));
    loop {
        let ready = sys::wait_readable(&polled).expect("poll on sockets of ours");
        if ready[0] {
            return tcp.iter().for_each(sys::stop_listening);
        }
        // A client that gave up is no reason to stop.
        for (socket, _) in tcp.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            let _ = answer_tcp(socket);
        }
        for (socket, _) in udp
            .iter()
            .zip(&ready[1 + tcp.len()..])
            .filter(|(_, ready)| **ready)
        {
            let _ = answer_udp(socket);
        }
    }
}

fn answer_tcp(listener: &TcpListener) -> io::Result<()> {
    let (mut client, from) = listener.accept()?;
    let reached = Reached {
        at: client.local_addr()?,
        from,
        original: sys::original_destination(&client).ok(),
    };
    client.write_all(reached.to_string().as_bytes())
}

fn answer_udp(socket: &UdpSocket) -> io::Result<()> {
    let (_, from) = socket.recv_from(&mut [0; 16])?;
    let reached = Reached {
        at: socket.local_addr()?,
        from,
        original: None,
    };
    socket.send_to(reached.to_string().as_bytes(), from).map(drop)
}

// === impl Reached ===

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.from)?;
        self.original.map_or(Ok(()), |original| write!(f, " {original}"))
    }
}

impl Reached {
    fn read(line: &str) -> io::Result<Self> {
        let mut words = line.split(' ').map(str::parse);
        match (words.next(), words.next(), words.next().transpose()) {
            (Some(Ok(at)), Some(Ok(from)), Ok(original)) => Ok(Self { at, from, original }),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("not one of our listeners: {line:?}"),
            )),
        }
    }
}

/// Connects by TCP from inside the namespace the calling thread is in, and asks who answered.
pub fn ask_tcp(to: SocketAddr) -> io::Result<Reached> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    stream.read_to_string(&mut line)?;
    Reached::read(&line)
}

/// The same from an address of our choice.
pub fn ask_tcp_from(from: IpAddr, to: SocketAddr) -> io::Result<Reached> {
    let mut stream = sys::connect_from(from, to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    stream.read_to_string(&mut line)?;
    Reached::read(&line)
}

/// Sends a datagram and asks who answered.
pub fn ask_udp(to: SocketAddr) -> io::Result<Reached> {
    let any: IpAddr = if to.is_ipv4() {
        [0; 4].into()
    } else {
        [0; 16].into()
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send_to(b"?", to)?;
    let mut line = [0; 200];
    // Not `connect`: a listener on `0.0.0.0` answers from whichever of its addresses the route suggests.
    let (length, _) = socket.recv_from(&mut line)?;
    Reached::read(&String::from_utf8_lossy(&line[..length]))
}
