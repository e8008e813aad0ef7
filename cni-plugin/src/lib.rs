//! The mesh CNI plugin whose credentials never go stale.
//!
//! One call, in order: what the runtime asked (`call`), the configuration (`netconf`), the API server's word on the
//! pod (`kube`), what follows from it (`intent`), the rules (`ruleset`), the kernel (`netns`, `nft`), the reply.

pub mod call;
pub mod cidr;
pub mod deadline;
pub mod error;
pub mod intent;
pub mod iptables;
pub mod kube;
pub mod log;
pub mod netconf;
pub mod netns;
pub mod nft;
pub mod ports;
pub mod reply;
pub mod ruleset;
mod sys;

use crate::{
    call::{Call, Environment, Verb},
    error::{Code, Failure},
    netconf::{Envelope, NetConf},
    reply::Reply,
};
use std::io::Read;

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
    let mut input = Vec::new();
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
    answer(&call, &envelope, version).unwrap_or_else(|failure| Reply::failure(&failure, Some(version)))
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

fn answer(call: &Call, envelope: &Envelope<'_>, version: &'static str) -> Result<Reply, Failure> {
    let netconf = NetConf::check(envelope, version);
    match call.verb {
        Verb::Add => Ok(Reply::result(netconf?.result())),
        _ => Ok(Reply::nothing()),
    }
}
