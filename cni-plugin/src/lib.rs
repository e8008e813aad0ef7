//! The mesh CNI plugin whose credentials never go stale. One call, in order:
//!
//! 1. `protocol` reads the environment ([`protocol::call`]) and stdin ([`protocol::netconf`]);
//! 2. `verbs` shows each command on half a page;
//! 3. `policy` decides about the pod, from the runtime's annotations or the API server's answer;
//! 4. `rules` turns the decision into a ruleset and programs it, with nf_tables or with iptables;
//! 5. `os` enters the pod's network namespace for that;
//! 6. `protocol` writes the reply.
//!
//! Imports go down this list: verbs, rules, policy, os, protocol, net.

pub mod net;
pub mod os;
pub mod policy;
pub mod protocol;
pub mod rules;
mod verbs;

use std::{fs::OpenOptions, io::Read, os::fd::IntoRawFd};

use crate::{
    os::sys,
    protocol::{
        call::{Call, Environment, Verb},
        failure::{Code, Failure},
        netconf::{Envelope, NetConf},
        reply::Reply,
    },
};

/// Stdin up to this many bytes takes two reads, the second one to see its end.
const USUAL_INPUT: usize = 8 << 10;

/// Prepares the process, before any file is opened and any thread is started: a closed stdin, stdout or stderr becomes
/// `/dev/null`, so that no later file gets its number, and a write to a broken pipe becomes an error instead of a signal.
pub fn begin() {
    sys::ignore_broken_pipes();
    while sys::has_closed_stdio() {
        // The new descriptor gets the lowest free number, and stays open.
        match OpenOptions::new().read(true).write(true).open("/dev/null") {
            Ok(null) => drop(null.into_raw_fd()),
            Err(_) => break,
        }
    }
}

/// Runs one CNI call. The checks come in the reference library's order: environment, stdin, command, version, then the
/// plugin's own.
pub fn run(env: Environment<'_>, stdin: &mut dyn Read) -> Reply {
    let call = match Call::read(env) {
        Ok(Some(call)) => call,
        Ok(None) => return Reply::about(),
        Err(invalid) => return Reply::failure(&invalid.into(), None),
    };
    if call.verb == Verb::Version {
        // Stdin is not read: a caller that asks for the version may leave it open.
        return Reply::versions();
    }
    // Room for every usual configuration: an empty Vec would read 32 bytes, then 64, and so on.
    let mut input = Vec::with_capacity(USUAL_INPUT);
    if let Err(e) = stdin.read_to_end(&mut input) {
        let failure = Failure::new(Code::Io, format!("error reading from stdin: {e}"));
        return Reply::failure(&failure, None);
    }
    let (envelope, version) = match read_version(&call.verb, &input) {
        Ok(read) => read,
        Err(failure) => return Reply::failure(&failure, None),
    };
    answer(&call, &envelope, version).unwrap_or_else(|failure| Reply::failure(&failure, Some(version)))
}

/// Reads stdin's envelope and the protocol version, which the command must support.
fn read_version<'a>(verb: &Verb, input: &'a [u8]) -> Result<(Envelope<'a>, &'static str), Failure> {
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

fn answer(call: &Call, envelope: &Envelope<'_>, version: &'static str) -> Result<Reply, Failure> {
    let netconf = NetConf::check(envelope, version);
    match call.verb {
        Verb::Add => verbs::add(call, &netconf?.with_previous(envelope)?),
        Verb::Check => verbs::check(call, &netconf?.with_previous(envelope)?),
        Verb::Del => verbs::del(call, netconf.ok().as_ref()),
        Verb::Status => verbs::status(netconf.map_err(Failure::from)),
        // The plugin keeps nothing outside network namespaces, so there is nothing to collect.
        Verb::Gc | Verb::Version | Verb::Unknown(_) => Ok(Reply::nothing()),
    }
}
