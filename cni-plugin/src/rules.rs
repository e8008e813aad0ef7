//! The rules into a pod's namespace, out of it, and compared: by nf_tables.

use crate::{
    error::{Code, Failure},
    netns::Netns,
    nft::{self, Applied},
    ruleset::Ruleset,
};

/// Makes the namespace's rules be these. Says how, for the log.
pub(crate) fn program(netns: &Netns, ruleset: &Ruleset) -> Result<&'static str, Failure> {
    match netns.run(|| nft::apply(ruleset))?? {
        Applied::Created => Ok("created by nf_tables"),
        Applied::Replaced => Ok("replaced by nf_tables"),
    }
}

/// Takes our rules out of the namespace; true if there were any.
pub(crate) fn remove(netns: &Netns) -> Result<bool, Failure> {
    Ok(netns.run(nft::remove)??)
}

/// Compares the namespace's rules with the wanted ones, or with what their own comments say.
pub(crate) fn compare(netns: &Netns, wanted: Option<&Ruleset>) -> Result<(), Failure> {
    let found = netns.run(nft::read)??;
    let compared = match wanted {
        Some(wanted) => found.matches(wanted),
        None => found.is_whole(),
    };
    compared.map_err(|difference| {
        Failure::new(
            Code::Drift,
            format!("the rules in the pod's network namespace are not what they should be: {difference}"),
        )
    })
}
