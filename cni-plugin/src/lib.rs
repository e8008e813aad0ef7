//! The mesh CNI plugin whose credentials never go stale.
//!
//! One call, in order: what the runtime asked (`call`), the configuration (`netconf`), the API server's word on the
//! pod (`decision`, `kube`), what follows from it (`intent`), the rules (`ruleset`), the kernel (`netns`, `nft`), the
//! reply.

pub mod call;
pub mod cidr;
pub mod deadline;
pub mod decision;
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

mod rules;

use std::{fs::OpenOptions, io::Read, os::fd::IntoRawFd};

use crate::{
    call::{Call, Environment, Verb},
    cidr::Family,
    deadline::Deadline,
    decision::Undecided,
    error::{Code, Failure},
    intent::{Decision, Glance},
    iptables::Tools,
    log::Log,
    netconf::{Envelope, NetConf},
    netns::Netns,
    reply::Reply,
    ruleset::Ruleset,
};

/// The interface whose address is the pod's: containerd and CRI-O name it so, and Multus calls others otherwise.
const PRIMARY: &str = "eth0";
/// Bytes of stdin that take two reads, the second one to see its end.
const USUAL_INPUT: usize = 8 << 10;

/// What a process of ours begins with, before any file is opened and any thread is started: a closed stdin, stdout or
/// stderr is made `/dev/null`, so that no file of ours takes its number, and a pipe that nobody reads is an error and no
/// signal.
pub fn begin() {
    sys::ignore_broken_pipes();
    while sys::a_standard_stream_is_closed() {
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
        Verb::Add => add(call, &netconf?, tools),
        Verb::Check => check(call, &netconf?, tools),
        Verb::Del => del(call, netconf.ok().as_ref(), tools),
        Verb::Status => status(netconf),
        // Nothing of ours outlives a network namespace, so there is nothing to collect.
        Verb::Gc | Verb::Version | Verb::Unknown(_) => Ok(Reply::nothing()),
    }
}

/// ADD: the pod's TCP goes through its proxy, or the reason why not goes to the log.
fn add(call: &Call, netconf: &NetConf<'_>, tools: Tools<'_>) -> Result<Reply, Failure> {
    let log = Log::new(netconf.log_level);
    let netns = namespace_of(call)?;
    let reply = Reply::result(netconf.result());
    match decide(call, netconf, netns.as_ref().ok(), tools.deadline, log)? {
        Decision::Skip(reason) => log.info(format_args!("add skipped: {reason}")),
        Decision::Redirect(redirect) => {
            let ruleset = Ruleset::build(&redirect);
            if netconf.simulate {
                log.info(format_args!("add simulated: {redirect}"));
                return Ok(reply);
            }
            let netns = netns?;
            if call.ifname != PRIMARY && rules::exist(&netns, tools)? {
                log.info(format_args!(
                    "add skipped: the pod's rules are there, {} is one more interface",
                    call.ifname
                ));
                return Ok(reply);
            }
            let done = rules::program(&netns, &ruleset, tools, log)?;
            log.info(format_args!("add {done}: {redirect}"));
        }
    }
    Ok(reply)
}

/// CHECK: the kernel holds what intent says now, or, when the API server cannot be asked, what the rules themselves
/// say they were at ADD. The runtime's annotations are no stand-in here: they do not know all that ADD knew.
fn check(call: &Call, netconf: &NetConf<'_>, tools: Tools<'_>) -> Result<Reply, Failure> {
    if netconf.previous.is_none() {
        return Err(Failure::new(Code::NetConf, "Required prevResult missing"));
    }
    let log = Log::new(netconf.log_level);
    let netns = namespace_of(call)?;
    let (Some(pod), false) = (call.pod()?, netconf.simulate) else {
        return Ok(Reply::nothing());
    };
    let families = families(call, netconf, netns.as_ref().ok());
    let wait = tools.deadline.share(decision::IN_RESERVE);
    match decision::decide_by_api(netconf, &pod, &families, wait, log) {
        Ok(Decision::Skip(_)) => {}
        Ok(Decision::Redirect(redirect)) => {
            // One more interface left the rules as they are, and so they may be more or less than it needs.
            let wanted = (call.ifname == PRIMARY).then(|| Ruleset::build(&redirect));
            rules::compare(&netns?, wanted.as_ref(), &idle(&families), tools)?;
        }
        Err(Undecided::CannotBeAsked(error)) => {
            log.warn(format_args!(
                "pod={pod} checked by the rules' own comments, because {error}"
            ));
            let netns = netns?;
            // A pod without rules and without a mark is most likely not meshed: an outage must not end it.
            if rules::exist(&netns, tools)? || intent::glance(netconf, &pod.namespace) == Glance::Marked {
                rules::compare(&netns, None, &[], tools)?;
            }
        }
        Err(Undecided::Failed(failure)) => return Err(failure.about(format_args!("pod {pod}"))),
    }
    Ok(Reply::nothing())
}

/// DEL: needs no API server, no credential and no namespace; a namespace that lives on loses our tables.
///
/// Whatever goes wrong is logged and no more: an error would keep the pod from ending, and rules die with their
/// namespace.
fn del(call: &Call, netconf: Option<&NetConf<'_>>, tools: Tools<'_>) -> Result<Reply, Failure> {
    let log = netconf.map_or(Log::new(log::Level::Warn), |n| Log::new(n.log_level));
    let netns = if call.netns.is_some() {
        namespace_of(call)?.ok()
    } else {
        None
    };
    match netns {
        Some(netns) if outlives_primary(call, &netns) => {
            log.info(format_args!("del skipped: {} is one more interface", call.ifname));
        }
        Some(netns) => match rules::remove(&netns, tools) {
            Ok(removed) => log.info(format_args!("del removed={removed}")),
            Err(failure) => log.warn(format_args!("del left rules behind: {}", failure.msg)),
        },
        None => {}
    }
    Ok(Reply::nothing())
}

/// True when another interface than the primary goes, and the primary is still there: the rules are its.
fn outlives_primary(call: &Call, netns: &Netns) -> bool {
    call.ifname != PRIMARY && netns.families(PRIMARY).is_ok_and(|families| !families.is_empty())
}

/// STATUS: fails only for what would fail every ADD, since an error takes the whole node out of service. What may
/// pass by itself (API server, credentials) is the installer's to report.
fn status(netconf: Result<NetConf<'_>, Failure>) -> Result<Reply, Failure> {
    let unusable = |msg: &str| Failure::new(Code::NotAvailable, msg);
    match netconf {
        Err(failure) => Err(unusable(&failure.msg)),
        Ok(NetConf {
            kubeconfig: Err(why), ..
        }) => Err(unusable(why)),
        Ok(_) => Ok(Reply::nothing()),
    }
}

/// The call's network namespace. Our own is refused before anything is touched; one that cannot be opened is an
/// error only to whoever needs it, which a pod that is passed on does not.
fn namespace_of(call: &Call) -> Result<Result<Netns, netns::Error>, Failure> {
    let netns = Netns::open(call.netns.as_deref().unwrap_or("".as_ref()));
    let own = netns.as_ref().is_ok_and(|n| n.is_own().unwrap_or(false));
    if own && !call.netns_may_be_own {
        return Err(Failure::new(
            Code::Netns,
            "plugin's netns and netns from CNI_NETNS should not be the same",
        ));
    }
    Ok(netns)
}

fn decide(
    call: &Call,
    netconf: &NetConf<'_>,
    netns: Option<&Netns>,
    deadline: Deadline,
    log: Log,
) -> Result<Decision, Failure> {
    let Some(pod) = call.pod()? else {
        return Ok(Decision::Skip("not a Kubernetes pod"));
    };
    let families = families(call, netconf, netns);
    decision::decide(netconf, &pod, &families, deadline, log)
        .map_err(|failure| failure.about(format_args!("pod {pod}")))
}

/// The families of the pod's addresses: what the previous plugin reports, else what the interface has.
fn families(call: &Call, netconf: &NetConf<'_>, netns: Option<&Netns>) -> Vec<Family> {
    match &netconf.previous {
        Some(previous) if !previous.families.is_empty() => previous.families.clone(),
        _ => netns
            .and_then(|n| n.families(&call.ifname).ok())
            .unwrap_or_default(),
    }
}

/// The families that a pod with addresses of these has none of; nothing is known of a pod without any.
fn idle(families: &[Family]) -> Vec<Family> {
    let all = [Family::V4, Family::V6];
    let lacks = |family: &Family| !families.is_empty() && !families.contains(family);
    all.into_iter().filter(lacks).collect()
}
