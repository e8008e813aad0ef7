//! The fallback for kernels without nf_tables: the same ruleset, programmed by the node's `iptables-restore`.
//!
//! Works in the network namespace of the calling thread. Programs it starts inherit the namespace, so no `nsenter` is
//! needed. The rules are in two chains of the plugin in table `nat`, with one jump to each. Each family takes one atomic
//! `iptables-restore`; both families cannot be changed at once.

mod rule;
mod script;
mod tool;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use self::{
    script::{CHAINS, Found},
    tool::{Tool, ToolError},
};
use crate::{
    net::cidr::Family,
    protocol::{
        failure::{CniError, Code},
        netconf::IptablesMode,
    },
    rules::{
        nft,
        ruleset::{Difference, Ruleset, Table},
    },
};
use evergreen_kube::deadline::Deadline;

/// Time to undo half a change, even after the call's deadline.
const UNDO: Duration = Duration::from_secs(2);

/// The options of the fallback.
#[derive(Debug, Clone, Copy)]
pub struct Tools<'a> {
    /// The variant that is tried first.
    pub mode: IptablesMode,
    /// `PATH` of the runtime. Well-known directories are searched after it.
    pub path: &'a str,
    /// When programs that still run are killed.
    pub deadline: Deadline,
}

/// Why the fallback failed.
#[derive(Debug)]
pub struct IptablesError {
    operation: &'static str,
    family: Family,
    /// One error for each variant that was tried.
    errors: Vec<ToolError>,
    /// Errors when the other family's rules were removed again.
    left: Vec<String>,
}

/// Programs these rules, in every family or in none. Returns the programs that did it.
pub fn apply(ruleset: &Ruleset, tools: Tools<'_>) -> Result<Vec<PathBuf>, IptablesError> {
    let mut used: Vec<Tool> = Vec::new();
    for table in &ruleset.tables {
        match apply_table(table, tools) {
            Ok(tool) => used.push(tool),
            Err(mut error) => {
                // Half a redirect is worse than none: the call fails, and the runtime retries with a new sandbox.
                let tools = Tools {
                    deadline: Deadline::after(UNDO),
                    ..tools
                };
                for tool in used {
                    let undone = tool
                        .save(tools)
                        .and_then(|found| remove_with(&tool, &found, tools));
                    error.left.extend(undone.err().map(|e| e.to_string()));
                }
                return Err(error);
            }
        }
    }
    for family in Family::ALL {
        if ruleset.tables.iter().all(|table| table.family != family) {
            // An unwanted family. If its programs or its kernel modules are missing, it has no rules.
            let _ = remove_family(family, tools);
        }
    }
    Ok(used.into_iter().map(|tool| tool.restore).collect())
}

/// Removes the plugin's chains, whichever variant made them. Returns true if there were any.
pub fn remove(tools: Tools<'_>) -> Result<bool, IptablesError> {
    // Both families are tried before the first error is returned.
    let removed = Family::ALL.map(|family| remove_family(family, tools));
    removed.into_iter().try_fold(false, |any, one| Ok(any | one?))
}

/// Returns true when rules of the fallback may be here, without starting a program.
///
/// It delays the end of the process by some milliseconds. Call it only after the fallback's mark was found, or without
/// nf_tables to hold one.
pub fn may_exist() -> bool {
    // For the legacy variant, the kernel only lists the tables of a namespace, and nothing until its module is loaded.
    let legacy = ["ip_tables_names", "ip6_tables_names"].iter().any(|list| {
        fs::read_to_string(format!("/proc/thread-self/net/{list}"))
            .is_ok_and(|tables| tables.lines().any(|table| table == "nat"))
    });
    let (_, _, inbound) = CHAINS[0];
    legacy || nft::has_chain("nat", inbound).unwrap_or(false)
}

/// Compares the rules with the wanted ones.
pub fn check(ruleset: &Ruleset, tools: Tools<'_>) -> Result<Result<(), Difference>, IptablesError> {
    for table in &ruleset.tables {
        let (_, found) = first_working("read the rules", table.family, tools)?;
        if let Err(difference) = script::compare(table, &found) {
            return Ok(Err(difference));
        }
    }
    Ok(Ok(()))
}

/// Checks that there are rules and that packets reach all of them, for when the wanted rules are unknown.
pub fn check_complete(tools: Tools<'_>) -> Result<Result<(), Difference>, IptablesError> {
    let mut any = false;
    let mut last = None;
    for family in Family::ALL {
        match first_working("read the rules", family, tools) {
            Ok((_, found)) => match script::check_complete(family, &found) {
                Ok(found) => any |= found,
                Err(difference) => return Ok(Err(difference)),
            },
            // A node or kernel may lack one family.
            Err(error) => last = Some(error),
        }
    }
    match (any, last) {
        (true, _) => Ok(Ok(())),
        (false, None) => Ok(Err(Difference::new(
            "no table nat has rules of the plugin".into(),
        ))),
        (false, Some(error)) => Err(error),
    }
}

fn apply_table(table: &Table, tools: Tools<'_>) -> Result<Tool, IptablesError> {
    const OPERATION: &str = "write the rules";
    let (tool, found) = first_working(OPERATION, table.family, tools)?;
    match tool.restore(&script::install(table, &found), tools) {
        Ok(()) => Ok(tool),
        Err(failure) => Err(IptablesError::new(OPERATION, table.family, vec![failure])),
    }
}

fn remove_family(family: Family, tools: Tools<'_>) -> Result<bool, IptablesError> {
    let mut any = false;
    for tool in tool::find(family, tools).unwrap_or_default() {
        // A variant that cannot read has no kernel module here, and so no rules.
        let Ok(found) = tool.save(tools) else { continue };
        any |= remove_with(&tool, &found, tools)
            .map_err(|e| IptablesError::new("remove the rules", family, vec![e]))?;
    }
    Ok(any)
}

fn remove_with(tool: &Tool, found: &Found, tools: Tools<'_>) -> Result<bool, ToolError> {
    match script::removal(found) {
        Some(script) => tool.restore(&script, tools).map(|()| true),
        None => Ok(false),
    }
}

/// Returns the first variant that can read the table `nat` in this namespace, and what it read.
fn first_working(
    operation: &'static str,
    family: Family,
    tools: Tools<'_>,
) -> Result<(Tool, Found), IptablesError> {
    let found =
        tool::find(family, tools).map_err(|missing| IptablesError::new(operation, family, vec![missing]))?;
    let mut errors = Vec::new();
    for tool in found {
        match tool.save(tools) {
            Ok(found) => return Ok((tool, found)),
            Err(error) => errors.push(error),
        }
    }
    Err(IptablesError::new(operation, family, errors))
}

// === impl IptablesError ===

impl IptablesError {
    fn new(operation: &'static str, family: Family, errors: Vec<ToolError>) -> Self {
        Self {
            operation,
            family,
            errors,
            left: Vec::new(),
        }
    }
}

impl fmt::Display for IptablesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iptables: cannot {} for {}: ", self.operation, self.family)?;
        for (i, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "; then " })?;
        }
        for left in &self.left {
            write!(f, "; the other family's rules could not be removed again: {left}")?;
        }
        write!(
            f,
            "; load the kernel module nf_tables, or install iptables and its kernel modules on the node"
        )
    }
}

impl std::error::Error for IptablesError {}

impl CniError for IptablesError {
    fn code(&self) -> Code {
        Code::Rules
    }
}

/// Returns the directories of `PATH`, then those where distributions install iptables.
fn directories(path: &str) -> impl Iterator<Item = &Path> {
    const USUAL: [&str; 7] = [
        "/usr/sbin",
        "/sbin",
        "/usr/bin",
        "/bin",
        "/usr/local/sbin",
        "/usr/local/bin",
        "/run/current-system/sw/bin",
    ];
    // A relative entry would depend on the runtime's working directory.
    path.split(':')
        .map(Path::new)
        .filter(|folder| folder.is_absolute())
        .chain(USUAL.map(Path::new))
}
