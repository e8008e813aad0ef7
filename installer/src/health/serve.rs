//! A minimal HTTP server for the kubelet's probes and Prometheus. Each connection has one request and its own thread. Up to
//! [`AT_ONCE`] silent clients delay no other client; more delay it for [`TIMEOUT`].

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use evergreen_kube::{deadline::Deadline, log::Log};

/// How long a client may take to send its request.
const TIMEOUT: Duration = Duration::from_millis(500);
/// How many connections are served at once; others wait in the kernel's queue.
const AT_ONCE: usize = 64;
/// The stack of a thread; an answer needs a few kilobytes.
const STACK: usize = 64 << 10;
/// The longest request head; probes and Prometheus send far less.
const LONGEST_HEAD: usize = 4096;

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    status: &'static str,
    body: String,
}

/// Returns the answer for a path; none for an unknown path.
pub type Answers = Arc<dyn Fn(&str) -> Option<Answer> + Send + Sync>;

impl Answer {
    /// 200 OK
    pub fn ok(body: impl Into<String>) -> Self {
        Self {
            status: "200 OK",
            body: body.into(),
        }
    }

    /// 503 Service Unavailable
    pub fn unavailable(body: impl Into<String>) -> Self {
        Self {
            status: "503 Service Unavailable",
            body: body.into(),
        }
    }
}

/// Starts serving in the background. For an unspecified address it listens on both families, as far as they exist.
pub fn start(address: SocketAddr, answers: Answers, log: Log) -> Result<()> {
    let listeners = listen(address).with_context(|| format!("listen on {address} for probes and metrics"))?;
    for listener in listeners {
        let address = listener.local_addr().context("read the address")?;
        log.with(&[("url", &format_args!("http://{address}"))])
            .info("serving probes and metrics");
        let answers = Arc::clone(&answers);
        thread::Builder::new()
            .name("serve".to_owned())
            .stack_size(STACK)
            .spawn(move || serve(&listener, &answers))
            .context("start a thread")?;
    }
    Ok(())
}

/// Serves until the process ends, up to [`AT_ONCE`] connections at a time.
fn serve(listener: &TcpListener, answers: &Answers) {
    // A counting semaphore: sending takes a slot, and blocks while all are taken.
    let (slots, taken) = mpsc::sync_channel(AT_ONCE);
    let taken = Arc::new(Mutex::new(taken));
    for stream in listener.incoming() {
        match stream {
            Ok(stream) if slots.send(()).is_ok() => answer_in_thread(stream, answers, &taken),
            Ok(_) => return,
            // Most likely out of descriptors or memory, which a busy loop would only make worse.
            Err(_) => thread::sleep(TIMEOUT),
        }
    }
}

/// Returns one listener, or two where an IPv6 listener does not accept IPv4 as well.
fn listen(address: SocketAddr) -> io::Result<Vec<TcpListener>> {
    if !address.ip().is_unspecified() {
        return TcpListener::bind(address).map(|l| vec![l]);
    }
    let port = address.port();
    let v6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    let port = v6
        .as_ref()
        .ok()
        .and_then(|l| l.local_addr().ok())
        .map_or(port, |a: SocketAddr| a.port());
    match (v6, TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))) {
        (Err(_), Err(e)) => Err(e),
        (v6, v4) => Ok([v6, v4].into_iter().flatten().collect()),
    }
}

/// Answers in a new thread, which then frees its slot.
fn answer_in_thread(stream: TcpStream, answers: &Answers, taken: &Arc<Mutex<Receiver<()>>>) {
    let (answers, slots) = (Arc::clone(answers), Arc::clone(taken));
    let free_slot = |slots: &Mutex<Receiver<()>>| {
        let _ = slots.lock().unwrap_or_else(PoisonError::into_inner).recv();
    };
    let thread = thread::Builder::new().name("answer".to_owned()).stack_size(STACK);
    let started = thread.spawn(move || {
        answer(stream, &answers);
        free_slot(&slots);
    });
    if started.is_err() {
        // Without a thread this client gets no answer; the next one may.
        free_slot(taken);
    }
}

fn answer(mut stream: TcpStream, answers: &Answers) {
    let deadline = Deadline::after(TIMEOUT);
    let Some(path) = path(&mut stream, deadline) else {
        return;
    };
    let Answer { status, body } = answers(&path).unwrap_or_else(|| Answer {
        status: "404 Not Found",
        body: "see /livez, /readyz and /metrics\n".to_owned(),
    });
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.set_write_timeout(Some(TIMEOUT));
    // A client that has gone away needs no answer.
    let _ = stream.write_all((head + &body).as_bytes());
}

/// Returns the path of a GET if its whole head arrives in time. The rest of the head is not needed, but must be read:
/// closing a connection with unread bytes would discard our answer.
fn path(stream: &mut TcpStream, deadline: Deadline) -> Option<String> {
    let (mut head, mut buffer) = (Vec::new(), [0; 512]);
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        if head.len() > LONGEST_HEAD || deadline.is_over() {
            return None;
        }
        stream.set_read_timeout(Some(deadline.left())).ok()?;
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => head.extend_from_slice(buffer.get(..n)?),
            _ => return None,
        }
    }
    let line = String::from_utf8(head).ok()?;
    let mut words = line.lines().next()?.split(' ');
    let path = (words.next()? == "GET").then(|| words.next())??;
    Some(path.split('?').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{cluster::credential_thread::Review, health::status::Status};

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn known_paths_are_answered() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let status = Status::default();
            let answers: Answers = Arc::new(move |path| status.answer(path, &Review::Pending));
            listener
                .incoming()
                .take(5)
                .flatten()
                .for_each(|stream| answer(stream, &answers));
        });
        let get = |path: &str| ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(get("/livez").starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(get("/readyz?verbose").starts_with("HTTP/1.1 503 "));
        assert!(get("/metrics").contains("\nevergreen_install_ready 0\n"));
        assert!(get("/").starts_with("HTTP/1.1 404 "));
        assert_eq!(ask(address, "POST /livez HTTP/1.1\r\n\r\n"), "");
        server.join().unwrap();
    }

    #[test]
    fn silent_clients_delay_no_other_client() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let answers: Answers = Arc::new(|_| Some(Answer::ok("ok\n")));
        thread::spawn(move || serve(&listener, &answers));
        let _silent = [(); AT_ONCE / 2].map(|()| TcpStream::connect(address).unwrap());
        let start = Instant::now();
        assert!(ask(address, "GET /livez HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
        // One after the other, they would take sixteen seconds.
        assert!(start.elapsed() < 4 * TIMEOUT, "{:?}", start.elapsed());
    }

    #[test]
    fn both_families_share_one_port() {
        let listeners = listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        assert!(listeners.iter().all(|l| l.local_addr().unwrap().port() == port));
        for address in [
            SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
        ] {
            assert!(TcpStream::connect(address).is_ok(), "{address}");
        }
    }
}
