//! The rules into a pod's namespace, out of it, and compared: by nf_tables, or by iptables where a kernel has none.

use crate::{
    error::{Code, Failure},
    os::netns::Netns,
    policy::cidr::Family,
    rules::{
        iptables::{self, Tools},
        nft::{self, Applied},
        ruleset::Ruleset,
    },
};
use evergreen_kube::log::Log;

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
            let used = netns.run(|| {
                // First the mark: whatever ends us after it, DEL knows where to look. A kernel without any nf_tables takes
                // none, and needs none.
                let _ = nft::mark();
                iptables::apply(ruleset, tools).inspect_err(|_| {
                    // Half done is undone: the rules by `apply` itself, the mark here.
                    let _ = nft::remove();
                })
            })??;
            log.warn(format_args!("fallback={used:?} because {error}"));
            Ok("programmed by iptables")
        }
        Err(error) => Err(error.into()),
    }
}

/// True when the namespace holds rules of ours.
pub(crate) fn exist(netns: &Netns, tools: Tools<'_>) -> Result<bool, Failure> {
    netns.run(|| match nft::exists() {
        Err(error) if error.is_no_nf_tables() => {
            Ok(iptables::may_be_here() && iptables::check_alone(tools)?.is_ok())
        }
        answer => Ok(answer?),
    })?
}

/// Takes our rules out of the namespace, whichever way they came in; true if there were any.
pub(crate) fn remove(netns: &Netns, tools: Tools<'_>) -> Result<bool, Failure> {
    netns.run(|| {
        let by_nf_tables = match nft::remove() {
            // Not even a mark: the fallback's rules are not looked for, which takes a pod's end some milliseconds.
            Ok(false) => return Ok(false),
            Err(error) if error.is_no_nf_tables() => Ok(false),
            answer => answer,
        };
        // Where the one failed the other is taken away all the same.
        let by_iptables = iptables::may_be_here() && iptables::remove(tools)?;
        Ok(by_nf_tables? | by_iptables)
    })?
}

/// Compares the namespace's rules with the wanted ones, or, where nobody can say which those are, with what the
/// rules' own comments say.
///
/// `idle` are the families that the pod certainly has no address in. Rules for them meet no packet, and are no
/// difference: whoever stands first in a chain programs what may come.
pub(crate) fn compare(
    netns: &Netns,
    wanted: Option<&Ruleset>,
    idle: &[Family],
    tools: Tools<'_>,
) -> Result<(), Failure> {
    let found = netns.run(|| match nft::read() {
        // What was lacking at ADD need not show itself now.
        Ok(found) if found.is_mark() => Ok(None),
        Err(error) if error.is_no_nf_tables() => Ok(None),
        answer => answer.map(Some),
    })??;
    let compared = match (found, wanted) {
        (Some(mut found), Some(wanted)) => {
            found.tables.retain(|table| !idle.contains(&table.family));
            found.matches(wanted)
        }
        (Some(found), None) => found.is_whole(),
        (None, Some(wanted)) => netns.run(|| iptables::check(wanted, tools))??,
        (None, None) => netns.run(|| iptables::check_alone(tools))??,
    };
    compared.map_err(|difference| {
        let what = "the rules in the pod's network namespace are not what they should be";
        Failure::new(
            Code::Drift,
            format!("{what}: {difference}; delete the pod, so that it is made anew"),
        )
    })
}
