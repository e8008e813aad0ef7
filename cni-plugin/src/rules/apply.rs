//! Rules programmed, removed and compared in a pod's network namespace: with nf_tables or, where the kernel lacks it, with
//! iptables.

use std::path::PathBuf;

use evergreen_kube::log::Log;

use crate::{
    net::cidr::Family,
    os::netns::Netns,
    protocol::failure::{Code, Failure},
    rules::{
        iptables::{self, Tools},
        nft::{self, Applied},
        ruleset::Ruleset,
    },
};

/// Programs these rules in place of any others of the plugin. Returns the backend and what it did, for the log.
pub(crate) fn program(
    netns: &Netns,
    ruleset: &Ruleset,
    tools: Tools<'_>,
    log: Log,
) -> Result<(String, &'static str), Failure> {
    match netns.run(|| nft::apply(ruleset))? {
        Ok(Applied::Created) => Ok(("nf_tables".into(), "created")),
        Ok(Applied::Replaced) => Ok(("nf_tables".into(), "replaced")),
        Err(error) if error.is_no_nf_tables() => {
            let programs = netns.run(|| {
                // The mark comes first: if the plugin is killed after it, DEL still finds the rules. A kernel without any
                // nf_tables accepts none, and needs none.
                let _ = nft::mark();
                iptables::apply(ruleset, tools).inspect_err(|_| {
                    // `apply` has undone its own part.
                    let _ = nft::remove();
                })
            })??;
            let backend = variants(&programs);
            log.with(&[("backend", &backend), ("error", &error)])
                .warn("nf_tables unavailable, iptables used");
            Ok((backend, "programmed"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the names of iptables variants, such as `iptables-nft`, from their restore programs.
fn variants(programs: &[PathBuf]) -> String {
    let names = programs
        .iter()
        .filter_map(|program| program.file_name()?.to_str());
    let variants: Vec<&str> = names.map(|name| name.trim_end_matches("-restore")).collect();
    variants.join(",")
}

/// Returns true when the namespace holds rules of the plugin.
pub(crate) fn exist(netns: &Netns, tools: Tools<'_>) -> Result<bool, Failure> {
    netns.run(|| match nft::exists() {
        Err(error) if error.is_no_nf_tables() => {
            Ok(iptables::may_exist() && iptables::check_complete(tools)?.is_ok())
        }
        answer => Ok(answer?),
    })?
}

/// Removes the plugin's rules of either backend. Returns true if there were any.
pub(crate) fn remove(netns: &Netns, tools: Tools<'_>) -> Result<bool, Failure> {
    netns.run(|| {
        let by_nf_tables = match nft::remove() {
            // No table and no mark: a search for the fallback's rules would delay the pod's end by some milliseconds.
            Ok(false) => return Ok(false),
            Err(error) if error.is_no_nf_tables() => Ok(false),
            answer => answer,
        };
        // Even if one backend fails, the rules of the other are removed.
        let by_iptables = iptables::may_exist() && iptables::remove(tools)?;
        Ok(by_nf_tables? | by_iptables)
    })?
}

/// Compares the namespace's rules with the wanted ones or, when these are unknown, with their own comments.
///
/// The pod has no address in the `missing` families. Rules for them match no packet and count as no difference: a plugin
/// that is first in its chain programs families the pod may get later.
pub(crate) fn compare(
    netns: &Netns,
    wanted: Option<&Ruleset>,
    missing: &[Family],
    tools: Tools<'_>,
) -> Result<(), Failure> {
    let found = netns.run(|| match nft::read() {
        // The mark shows that ADD used iptables, even if nf_tables works now.
        Ok(found) if found.is_mark() => Ok(None),
        Err(error) if error.is_no_nf_tables() => Ok(None),
        answer => answer.map(Some),
    })??;
    let compared = match (found, wanted) {
        (Some(mut found), Some(wanted)) => {
            found.tables.retain(|table| !missing.contains(&table.family));
            found.matches(wanted)
        }
        (Some(found), None) => found.matches_comments(),
        (None, Some(wanted)) => netns.run(|| iptables::check(wanted, tools))??,
        (None, None) => netns.run(|| iptables::check_complete(tools))??,
    };
    compared.map_err(|difference| {
        let problem = "the rules in the pod's network namespace are not what they should be";
        Failure::new(
            Code::Drift,
            format!("{problem}: {difference}; delete the pod to have it recreated"),
        )
    })
}
