//! ADD, CHECK, DEL and STATUS, each in order: read, decide, apply, reply.

use evergreen_kube::{
    Wait,
    deadline::Deadline,
    log::{Component, Level, Log},
    pod::PRIMARY_INTERFACE,
};

use crate::{
    net::cidr::Family,
    os::netns::{Netns, NetnsError},
    policy::{
        decision::{self, DecideError},
        intent::{self, Decision, Precheck},
    },
    protocol::{
        call::Call,
        failure::{Code, Failure},
        netconf::{self, NetConf},
        reply::Reply,
    },
    rules::{apply, iptables::Tools, ruleset::Ruleset},
};

/// ADD: redirects the pod's TCP to its proxy, or logs why not.
pub(crate) fn add(call: &Call, netconf: &NetConf<'_>) -> Result<Reply, Failure> {
    let log = Log::new(Component::Plugin, netconf.log_level);
    let deadline = Deadline::after(netconf.deadline);
    let netns = open_namespace(call)?;
    let reply = Reply::result(netconf.result());
    let Some(pod) = call.pod()? else {
        log.with(&[("reason", &"not a Kubernetes pod")])
            .info("add skipped");
        return Ok(reply);
    };

    let families = families(call, netconf, netns.as_ref().ok());
    let decision = decision::decide(netconf, &pod, &families, deadline, log);
    let redirect = match decision.map_err(|failure| failure.about(format_args!("pod {pod}")))? {
        Decision::Redirect(redirect) => redirect,
        Decision::Skip(reason) => {
            log.with(&[("pod", &pod), ("reason", &reason)])
                .info("add skipped");
            return Ok(reply);
        }
    };
    let ruleset = Ruleset::build(&redirect);
    if netconf.simulate {
        log.with(&[("pod", &pod), ("redirect", &redirect)])
            .info("add simulated");
        return Ok(reply);
    }

    let netns = netns?;
    let tools = tools(call, Some(netconf), deadline);
    if !call.is_primary() && apply::exist(&netns, tools)? {
        let reason = "the pod already has rules, this is a further interface";
        log.with(&[("pod", &pod), ("interface", &call.ifname), ("reason", &reason)])
            .info("add skipped");
        return Ok(reply);
    }
    let (backend, state) = apply::program(&netns, &ruleset, tools, log)?;
    log.with(&[
        ("pod", &pod),
        ("backend", &backend),
        ("state", &state),
        ("redirect", &redirect),
    ])
    .info("add redirected");
    Ok(reply)
}

/// CHECK: compares the kernel's rules with the current intent or, while the API server is unavailable, with their own
/// comments. The runtime's annotations do not replace the API server here: they lack some of what ADD knew.
pub(crate) fn check(call: &Call, netconf: &NetConf<'_>) -> Result<Reply, Failure> {
    if netconf.previous.is_none() {
        return Err(Failure::new(Code::NetConf, "Required prevResult missing"));
    }
    let log = Log::new(Component::Plugin, netconf.log_level);
    let deadline = Deadline::after(netconf.deadline);
    let netns = open_namespace(call)?;
    let (Some(pod), false) = (call.pod()?, netconf.simulate) else {
        return Ok(Reply::nothing());
    };

    let families = families(call, netconf, netns.as_ref().ok());
    let wait = Wait::with_fallback(deadline.share(decision::API_SHARE_WITH_FALLBACK));
    let tools = tools(call, Some(netconf), deadline);
    match decision::decide_by_api(netconf, &pod, &families, wait, log) {
        Ok(Decision::Skip(_)) => {}
        Ok(Decision::Redirect(redirect)) => {
            // ADD of a further interface keeps existing rules, so they may differ from what this interface needs.
            let wanted = call.is_primary().then(|| Ruleset::build(&redirect));
            apply::compare(&netns?, wanted.as_ref(), &missing(&families), tools)?;
        }
        Err(DecideError::Unavailable(error)) => {
            log.with(&[("pod", &pod), ("error", &error)])
                .warn("API server unavailable, rules checked by their comments");
            let netns = netns?;
            // A pod with neither rules nor marks is most likely unmeshed: an outage must not end it.
            let is_marked = intent::precheck(netconf, &pod.namespace) == Precheck::Marked;
            if apply::exist(&netns, tools)? || is_marked {
                apply::compare(&netns, None, &[], tools)?;
            }
        }
        Err(DecideError::Failed(failure)) => return Err(failure.about(format_args!("pod {pod}"))),
    }
    Ok(Reply::nothing())
}

/// DEL: removes the rules from a namespace that still exists. It needs no API server, credential or valid netconf.
///
/// Errors are only logged: a failed DEL would keep the pod from ending, and rules end with their namespace.
pub(crate) fn del(call: &Call, netconf: Option<&NetConf<'_>>) -> Result<Reply, Failure> {
    let log = Log::new(Component::Plugin, netconf.map_or(Level::Warn, |n| n.log_level));
    let deadline = Deadline::after(netconf.map_or(netconf::DEFAULT_DEADLINE, |n| n.deadline));
    let netns = match call.netns {
        Some(_) => open_namespace(call)?.ok(),
        None => None,
    };
    match netns {
        Some(netns) if outlives_primary(call, &netns) => {
            let reason = "the rules belong to the pod's primary interface";
            log.with(&[("interface", &call.ifname), ("reason", &reason)])
                .info("del skipped");
        }
        Some(netns) => match apply::remove(&netns, tools(call, netconf, deadline)) {
            Ok(removed) => log.with(&[("removed", &removed)]).info("del finished"),
            Err(failure) => log
                .with(&[("error", &failure.msg)])
                .warn("del could not remove the rules"),
        },
        None => {}
    }
    Ok(Reply::nothing())
}

/// STATUS: fails only for what would fail every ADD, because an error takes the whole node out of service. The installer
/// reports trouble that may pass by itself (API server, credentials).
pub(crate) fn status(netconf: Result<NetConf<'_>, Failure>) -> Result<Reply, Failure> {
    let unavailable = |msg: &str| Failure::new(Code::NotAvailable, msg);
    let netconf = netconf.map_err(|failure| unavailable(&failure.msg))?;
    netconf.kubeconfig.map_err(unavailable)?;
    Ok(Reply::nothing())
}

/// Opens the call's network namespace. The plugin's own namespace is an error at once; one that cannot be opened is an
/// error only where it is needed, since a pod that is skipped does not need it.
fn open_namespace(call: &Call) -> Result<Result<Netns, NetnsError>, Failure> {
    let netns = Netns::open(call.netns.as_deref().unwrap_or("".as_ref()));
    let is_own = netns.as_ref().is_ok_and(|n| n.is_own().unwrap_or(false));
    if is_own && !call.netns_may_be_own {
        return Err(Failure::new(
            Code::Netns,
            "plugin's netns and netns from CNI_NETNS should not be the same",
        ));
    }
    Ok(netns)
}

/// Returns the options of the iptables fallback for this call.
fn tools<'a>(call: &'a Call, netconf: Option<&NetConf<'_>>, deadline: Deadline) -> Tools<'a> {
    Tools {
        mode: netconf.map(|n| n.iptables_mode).unwrap_or_default(),
        path: &call.search_path,
        deadline,
    }
}

/// Returns the families of the pod's addresses: from the previous plugin's result, else from the interface.
fn families(call: &Call, netconf: &NetConf<'_>, netns: Option<&Netns>) -> Vec<Family> {
    match &netconf.previous {
        Some(previous) if !previous.families.is_empty() => previous.families.clone(),
        _ => netns
            .and_then(|n| n.families(&call.ifname).ok())
            .unwrap_or_default(),
    }
}

/// Returns the families in which the pod has no address; none when its addresses are unknown.
fn missing(families: &[Family]) -> Vec<Family> {
    let is_missing = |family: &Family| !families.is_empty() && !families.contains(family);
    Family::ALL.into_iter().filter(is_missing).collect()
}

/// Returns true when the call removes a further interface and the primary one, which the rules belong to, still exists.
fn outlives_primary(call: &Call, netns: &Netns) -> bool {
    !call.is_primary()
        && netns
            .families(PRIMARY_INTERFACE)
            .is_ok_and(|families| !families.is_empty())
}
