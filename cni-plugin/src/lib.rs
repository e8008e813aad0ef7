//! The mesh CNI plugin whose credentials never go stale.
//!
//! One call, in order: what the runtime asked (`call`), the configuration (`netconf`), the API server's word on the
//! pod (`decision`, `kube`), what follows from it (`intent`), the rules (`ruleset`), the kernel (`netns`, `nft`), the
//! reply.

pub mod error;
pub mod os;
pub mod policy;
pub mod protocol;
pub mod rules;
mod verbs;

use std::{fs::OpenOptions, io::Read, os::fd::IntoRawFd};

use evergreen_kube::deadline::Deadline;

use crate::{
    error::{Code, Failure},
    os::sys,
    protocol::{
        call::{Call, Environment, Verb},
        netconf::{self, Envelope, NetConf},
        reply::Reply,
    },
    rules::iptables::Tools,
};

/// Bytes of stdin that take two reads, the second one to see its end.
const USUAL_INPUT: usize = 8 << 10;

/// What a process of ours begins with, before any file is opened and any thread is started: a closed stdin, stdout or
/// stderr is made `/dev/null`, so that no file of ours takes its number, and a pipe that nobody reads is an error and no
/// signal.
pub fn begin() {
    sys::ignore_broken_pipes();
    while sys::has_closed_stdio() {
        // It gets the lowest number that is free, and keeps it.
        match OpenOptions::new().read(true).write(true).open("/dev/null") {
            Ok(null) => drop(null.into_raw_fd()),
            Err(_) => break,
        }
    }
}

/// One CNI call. The checks come in the reference library's order: environment, stdin, command, version, our own.
pub fn run(env: Environment<'_>, stdin: &mut dyn Read) -> Reply {
    let call = match Call::read(env) {
        Ok(Some(call)) => call,
        Ok(None) => return Reply::about(),
        Err(invalid) => return Reply::failure(&invalid.into(), None),
    };
    if call.verb == Verb::Version {
        // Stdin is not read: whoever asks for the version may leave it open.
        return Reply::versions();
    }
    // Room for every usual configuration: from nothing, a Vec reads 32 bytes, then twice as many, and so on.
    let mut input = Vec::with_capacity(USUAL_INPUT);
    if let Err(e) = stdin.read_to_end(&mut input) {
        return Reply::failure(
            &Failure::new(Code::Io, format!("error reading from stdin: {e}")),
            None,
        );
    }
    let (envelope, version) = match version_of(&call.verb, &input) {
        Ok(known) => known,
        Err(failure) => return Reply::failure(&failure, None),
    };
    let netconf = NetConf::check(&envelope, version).and_then(|netconf| match call.verb {
        Verb::Add | Verb::Check => netconf.with_previous(&envelope),
        _ => Ok(netconf),
    });
    answer(&call, netconf.map_err(Failure::from), env)
        .unwrap_or_else(|failure| Reply::failure(&failure, Some(version)))
}

/// Stdin's envelope and the protocol version that this command may be spoken in.
fn version_of<'a>(verb: &Verb, input: &'a [u8]) -> Result<(Envelope<'a>, &'static str), Failure> {
    let envelope = Envelope::read(input)?;
    let version = match verb {
        Verb::Add | Verb::Del | Verb::Version => envelope.version()?,
        Verb::Check => envelope.version_since("0.4.0", "CHECK")?,
        Verb::Gc => envelope.version_since("1.1.0", "GC")?,
        Verb::Status => envelope.version_since("1.1.0", "STATUS")?,
        Verb::Unknown(word) => {
            return Err(Failure::new(
                Code::Environment,
                format!("unknown CNI_COMMAND: {word}"),
            ));
        }
    };
    Ok((envelope, version))
}

fn answer(
    call: &Call,
    netconf: Result<NetConf<'_>, Failure>,
    env: Environment<'_>,
) -> Result<Reply, Failure> {
    let path = env("PATH").unwrap_or_default();
    let tools = Tools {
        mode: netconf.as_ref().map(|n| n.iptables_mode).unwrap_or_default(),
        path: &path.to_string_lossy(),
        deadline: Deadline::after(netconf.as_ref().map_or(netconf::DEFAULT_DEADLINE, |n| n.deadline)),
    };
    match call.verb {
        Verb::Add => verbs::add(call, &netconf?, tools),
        Verb::Check => verbs::check(call, &netconf?, tools),
        Verb::Del => verbs::del(call, netconf.ok().as_ref(), tools),
        Verb::Status => verbs::status(netconf),
        // Nothing of ours outlives a network namespace, so there is nothing to collect.
        Verb::Gc | Verb::Version | Verb::Unknown(_) => Ok(Reply::nothing()),
    }
}
