//! The rules into a pod's namespace, out of it, and compared: by nf_tables, or by iptables where a kernel has none.

use crate::{
    error::{Code, Failure},
    iptables::{self, Tools},
    log::Log,
    netns::Netns,
    nft::{self, Applied},
    ruleset::Ruleset,
};

/// Makes the namespace's rules be these. Says how, for the log.
pub(crate) fn program(
    netns: &Netns,
    ruleset: &Ruleset,
    tools: Tools<'_>,
    log: Log,
) -> Result<&'static str, Failure> {
    match netns.run(|| nft::apply(ruleset))? {
        Ok(Applied::Created) => Ok("created by nf_tables"),
        Ok(Applied::Replaced) => Ok("replaced by nf_tables"),
        Err(error) if error.is_no_nf_tables() => {
            let used = netns.run(|| iptables::apply(ruleset, tools))??;
            log.warn(format_args!("fallback={used:?} because {error}"));
            Ok("programmed by iptables")
        }
        Err(error) => Err(error.into()),
    }
}

/// True when the namespace holds rules of ours.
pub(crate) fn exist(netns: &Netns) -> Result<bool, Failure> {
    match netns.run(nft::exists)? {
        Err(error) if error.is_no_nf_tables() => Ok(false),
        answer => Ok(answer?),
    }
}

/// Takes our rules out of the namespace; true if there were any.
pub(crate) fn remove(netns: &Netns, tools: Tools<'_>) -> Result<bool, Failure> {
    match netns.run(nft::remove)? {
        Err(error) if error.is_no_nf_tables() => Ok(netns.run(|| iptables::remove(tools))??),
        answer => Ok(answer?),
    }
}

/// Compares the namespace's rules with the wanted ones, or, where nobody can say which those are, with what the
/// rules' own comments say.
pub(crate) fn compare(netns: &Netns, wanted: Option<&Ruleset>, tools: Tools<'_>) -> Result<(), Failure> {
    let compared = match (netns.run(nft::read)?, wanted) {
        (Ok(found), Some(wanted)) => found.matches(wanted),
        (Ok(found), None) => found.is_whole(),
        (Err(error), Some(wanted)) if error.is_no_nf_tables() => {
            netns.run(|| iptables::check(wanted, tools))??
        }
        (Err(error), None) if error.is_no_nf_tables() => netns.run(|| iptables::check_alone(tools))??,
        (Err(error), _) => return Err(error.into()),
    };
    compared.map_err(|difference| {
        let what = "the rules in the pod's network namespace are not what they should be";
        Failure::new(
            Code::Drift,
            format!("{what}: {difference}; delete the pod, so that it is made anew"),
        )
    })
}
