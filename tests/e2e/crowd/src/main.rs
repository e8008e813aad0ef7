//! A crowd in front of an API server: very many callers who ask for one thing again and again under one identity, and
//! at the end one JSON object that says what they were answered. It touches sockets, the files it is given, and stdout.
//!
//! A caller who reads slowly occupies one of the server's seats for as long as the request is being answered. That is
//! how a small machine shows what a large one meets: without it the processors are busy before the seats are.

mod answer;
mod caller;
mod tally;

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use caller::Caller;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tally::Tally;

const USAGE: &str = "\
usage: crowd --server ADDRESS:PORT --ca FILE --token FILE --path PATH --until FILE
             [--callers N]        so many at once (1)
             [--apart MS]         one starts so long after the other (0)
             [--each N]           each asks so often (without end)
             [--hold MS]          reads an answer only after so long
             [--fresh]            each request on a connection of its own, as the plugin does
             [--pause MS]         after a 429 asks again after so long (0)
It ends when the file of --until is there, or when every caller has asked often enough.";

/// Room for a caller's TLS records; the default of 2 MiB is only reserved, but thousands of them are counted.
const STACK: usize = 256 << 10;
/// How often the end is looked for.
const GLANCE: Duration = Duration::from_millis(20);

/// What the command line says.
struct Options {
    server: SocketAddr,
    ca: PathBuf,
    token: PathBuf,
    path: String,
    until: PathBuf,
    callers: usize,
    apart: Duration,
    each: usize,
    hold: Duration,
    fresh: bool,
    pause: Duration,
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crowd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Starts everybody, waits for the end, says what came of it.
fn run(options: &Options) -> Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    let tally = Arc::new(Tally::default());
    let caller = Arc::new(caller_of(options, &over, &tally)?);
    let began = Instant::now();
    let mut threads = Vec::with_capacity(options.callers);
    for _ in 0..options.callers {
        if options.until.exists() {
            break;
        }
        thread::sleep(options.apart);
        let caller = Arc::clone(&caller);
        let thread = thread::Builder::new().stack_size(STACK);
        threads.push(thread.spawn(move || caller.ask_again_and_again())?);
    }
    while !options.until.exists() && threads.iter().any(|thread| !thread.is_finished()) {
        thread::sleep(GLANCE);
    }
    over.store(true, Relaxed);
    let seconds = began.elapsed().as_secs_f64();
    writeln!(io::stdout(), "{}", tally.report(options.callers, seconds))?;
    // Callers who wait for an answer, or hold one, are not waited for: the end of the process is theirs.
    Ok(())
}

fn caller_of(options: &Options, over: &Arc<AtomicBool>, tally: &Arc<Tally>) -> Result<Caller> {
    let pem = fs::read(&options.ca).with_context(|| format!("read {}", options.ca.display()))?;
    let mut roots = RootCertStore::empty();
    for certificate in rustls_pemfile::certs(&mut pem.as_slice()) {
        roots.add(certificate.context("certificate of --ca")?)?;
    }
    let token =
        fs::read_to_string(&options.token).with_context(|| format!("read {}", options.token.display()))?;
    let connection = if options.fresh { "close" } else { "keep-alive" };
    Ok(Caller {
        server: options.server,
        name: ServerName::from(options.server.ip()),
        tls: Arc::new(
            ClientConfig::builder()
                .with_root_certificates(roots)
                .with_no_client_auth(),
        ),
        request: format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: application/json\r\nUser-Agent: \
             crowd\r\nConnection: {connection}\r\n\r\n",
            options.path,
            options.server,
            token.trim()
        ),
        each: options.each,
        hold: options.hold,
        fresh: options.fresh,
        pause: options.pause,
        over: Arc::clone(over),
        tally: Arc::clone(tally),
    })
}

fn options() -> Result<Options> {
    use lexopt::prelude::{Long, ValueExt};
    let (mut server, mut ca, mut token, mut path, mut until) = (None, None, None, None, None);
    let (mut callers, mut each) = (1, usize::MAX);
    let (mut apart, mut hold, mut pause) = (0, 0, 0);
    let mut fresh = false;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("server") => server = Some(parser.value()?.parse()?),
            Long("ca") => ca = Some(parser.value()?.into()),
            Long("token") => token = Some(parser.value()?.into()),
            Long("path") => path = Some(parser.value()?.string()?),
            Long("until") => until = Some(parser.value()?.into()),
            Long("callers") => callers = parser.value()?.parse()?,
            Long("apart") => apart = parser.value()?.parse()?,
            Long("each") => each = parser.value()?.parse()?,
            Long("hold") => hold = parser.value()?.parse()?,
            Long("fresh") => fresh = true,
            Long("pause") => pause = parser.value()?.parse()?,
            _ => return Err(anyhow::Error::new(argument.unexpected()).context(USAGE)),
        }
    }
    Ok(Options {
        server: server.context(USAGE)?,
        ca: ca.context(USAGE)?,
        token: token.context(USAGE)?,
        path: path.context(USAGE)?,
        until: until.context(USAGE)?,
        callers,
        apart: Duration::from_millis(apart),
        each,
        hold: Duration::from_millis(hold),
        fresh,
        pause: Duration::from_millis(pause),
    })
}
