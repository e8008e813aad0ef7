//! A few paths over plain HTTP, for the kubelet's probes and for Prometheus. Reads one request, answers, and
//! closes, each in a thread that ends with it: who connects and says nothing holds up nobody, as long as not more than
//! [`AT_ONCE`] do so, and then for no longer than [`ASKING_TAKES`].

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

const ASKING_TAKES: Duration = Duration::from_millis(500);
/// So many are answered at once. The others wait in the kernel's queue.
const AT_ONCE: usize = 64;
/// Answering needs a few kilobytes.
const STACK: usize = 64 << 10;
/// Longer than the first line of any request that is meant for us.
const LONGEST: usize = 4096;

/// What is said to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    status: &'static str,
    body: String,
}

/// Who knows the answers; none for a path that there is not.
pub type Answers = Arc<dyn Fn(&str) -> Option<Answer> + Send + Sync>;

impl Answer {
    /// 200
    pub fn good(body: impl Into<String>) -> Self {
        Self {
            status: "200 OK",
            body: body.into(),
        }
    }

    /// 503
    pub fn unavailable(body: impl Into<String>) -> Self {
        Self {
            status: "503 Service Unavailable",
            body: body.into(),
        }
    }
}

/// Listens at this address, or, when it is that of every interface, on both families or the one there is; answers from
/// threads of its own.
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

/// Answers for ever, up to [`AT_ONCE`] at a time.
fn serve(listener: &TcpListener, answers: &Answers) {
    // A place is taken by putting something in, which waits while all are taken.
    let (places, taken) = mpsc::sync_channel(AT_ONCE);
    let taken = Arc::new(Mutex::new(taken));
    for stream in listener.incoming() {
        match stream {
            Ok(stream) if places.send(()).is_ok() => answer_beside(stream, answers, &taken),
            Ok(_) => return,
            // Out of descriptors or memory, most likely: to ask again at once would only take time from who can help.
            Err(_) => thread::sleep(ASKING_TAKES),
        }
    }
}

/// A listener for IPv6 usually takes IPv4 too. Where it does not, there are two; where there is no IPv6, one.
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

/// Answers in a thread of its own, and then gives its place back.
fn answer_beside(stream: TcpStream, answers: &Answers, taken: &Arc<Mutex<Receiver<()>>>) {
    let (answers, place) = (Arc::clone(answers), Arc::clone(taken));
    let give_back = |place: &Mutex<Receiver<()>>| {
        let _ = place.lock().unwrap_or_else(PoisonError::into_inner).recv();
    };
    let thread = thread::Builder::new().name("answer".to_owned()).stack_size(STACK);
    let started = thread.spawn(move || {
        answer(stream, &answers);
        give_back(&place);
    });
    if started.is_err() {
        // No thread to be had: this one is not answered, the next may be.
        give_back(taken);
    }
}

fn answer(mut stream: TcpStream, answers: &Answers) {
    let deadline = Deadline::after(ASKING_TAKES);
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
    let _ = stream.set_write_timeout(Some(ASKING_TAKES));
    // Whoever no longer listens has had the answer offered.
    let _ = stream.write_all((head + &body).as_bytes());
}

/// The path of a GET, when all of its head has come in time. The rest of the head says nothing we need, but must be read:
/// closing a connection with unread bytes would take our answer back.
fn path(stream: &mut TcpStream, deadline: Deadline) -> Option<String> {
    let (mut head, mut buffer) = (Vec::new(), [0; 512]);
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        if head.len() > LONGEST || deadline.is_over() {
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
    use crate::health::status::Status;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn each_path_has_its_answer_and_nonsense_has_none() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let status = Status::default();
            let answers: Answers = Arc::new(move |path| status.answer(path));
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
    fn who_connects_and_says_nothing_holds_up_nobody() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let answers: Answers = Arc::new(|_| Some(Answer::good("ok\n")));
        thread::spawn(move || serve(&listener, &answers));
        let _silent = [(); AT_ONCE / 2].map(|()| TcpStream::connect(address).unwrap());
        let start = Instant::now();
        assert!(ask(address, "GET /livez HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
        // One after the other they would take sixteen seconds.
        assert!(start.elapsed() < 4 * ASKING_TAKES, "{:?}", start.elapsed());
    }

    #[test]
    fn both_families_are_served_on_one_port() {
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
