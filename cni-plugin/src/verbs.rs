//! ADD, CHECK, DEL and STATUS, each in order: read, decide, apply, reply.

use evergreen_kube::{
    Wait,
    deadline::Deadline,
    log::{self, Component, Log},
};

use crate::{
    error::{Code, Failure},
    os::netns::{self, Netns},
    policy::{
        cidr::Family,
        decision::{self, DecideError},
        intent::{self, Decision, Precheck},
    },
    protocol::{call::Call, netconf::NetConf, reply::Reply},
    rules::{apply, iptables::Tools, ruleset::Ruleset},
};

/// The interface whose address is the pod's: containerd and CRI-O name it so, and Multus calls others otherwise.
const PRIMARY: &str = "eth0";

/// ADD: the pod's TCP goes through its proxy, or the reason why not goes to the log.
pub(crate) fn add(call: &Call, netconf: &NetConf<'_>, tools: Tools<'_>) -> Result<Reply, Failure> {
    let log = Log::new(Component::Plugin, netconf.log_level);
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
            if call.ifname != PRIMARY && apply::exist(&netns, tools)? {
                log.info(format_args!(
                    "add skipped: the pod's rules are there, {} is one more interface",
                    call.ifname
                ));
                return Ok(reply);
            }
            let done = apply::program(&netns, &ruleset, tools, log)?;
            log.info(format_args!("add {done}: {redirect}"));
        }
    }
    Ok(reply)
}

/// CHECK: the kernel holds what intent says now, or, when the API server cannot be asked, what the rules themselves
/// say they were at ADD. The runtime's annotations are no stand-in here: they do not know all that ADD knew.
pub(crate) fn check(call: &Call, netconf: &NetConf<'_>, tools: Tools<'_>) -> Result<Reply, Failure> {
    if netconf.previous.is_none() {
        return Err(Failure::new(Code::NetConf, "Required prevResult missing"));
    }
    let log = Log::new(Component::Plugin, netconf.log_level);
    let netns = namespace_of(call)?;
    let (Some(pod), false) = (call.pod()?, netconf.simulate) else {
        return Ok(Reply::nothing());
    };
    let families = families(call, netconf, netns.as_ref().ok());
    let wait = Wait::with_fallback(tools.deadline.share(decision::API_SHARE_WITH_FALLBACK));
    match decision::decide_by_api(netconf, &pod, &families, wait, log) {
        Ok(Decision::Skip(_)) => {}
        Ok(Decision::Redirect(redirect)) => {
            // One more interface left the rules as they are, and so they may be more or less than it needs.
            let wanted = (call.ifname == PRIMARY).then(|| Ruleset::build(&redirect));
            apply::compare(&netns?, wanted.as_ref(), &idle(&families), tools)?;
        }
        Err(DecideError::CannotBeAsked(error)) => {
            log.warn(format_args!(
                "pod={pod} checked by the rules' own comments, because {error}"
            ));
            let netns = netns?;
            // A pod without rules and without a mark is most likely not meshed: an outage must not end it.
            if apply::exist(&netns, tools)? || intent::precheck(netconf, &pod.namespace) == Precheck::Marked {
                apply::compare(&netns, None, &[], tools)?;
            }
        }
        Err(DecideError::Failed(failure)) => return Err(failure.about(format_args!("pod {pod}"))),
    }
    Ok(Reply::nothing())
}

/// DEL: needs no API server, no credential and no namespace; a namespace that lives on loses our tables.
///
/// Whatever goes wrong is logged and no more: an error would keep the pod from ending, and rules die with their
/// namespace.
pub(crate) fn del(call: &Call, netconf: Option<&NetConf<'_>>, tools: Tools<'_>) -> Result<Reply, Failure> {
    let log = Log::new(
        Component::Plugin,
        netconf.map_or(log::Level::Warn, |n| n.log_level),
    );
    let netns = if call.netns.is_some() {
        namespace_of(call)?.ok()
    } else {
        None
    };
    match netns {
        Some(netns) if outlives_primary(call, &netns) => {
            log.info(format_args!("del skipped: {} is one more interface", call.ifname));
        }
        Some(netns) => match apply::remove(&netns, tools) {
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
pub(crate) fn status(netconf: Result<NetConf<'_>, Failure>) -> Result<Reply, Failure> {
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
