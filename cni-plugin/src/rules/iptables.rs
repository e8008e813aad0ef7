//! The fallback for kernels without nf_tables: the same ruleset by the node's own `iptables-restore`.
//!
//! Works in the network namespace the calling thread is in; the programs it starts are in it too, so no `nsenter` is
//! needed. The rules live in two chains of our own in table `nat`, with one jump to each. Each family is one atomic
//! `iptables-restore`; there is no way to have both in one.

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
    tool::{Failure, Tool},
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

/// Time to undo half a change in, even when the call's own is over.
const UNDO: Duration = Duration::from_secs(2);

/// What the fallback may use.
#[derive(Debug, Clone, Copy)]
pub struct Tools<'a> {
    /// Which variant is tried first.
    pub mode: IptablesMode,
    /// `PATH` as the runtime gave it, separated by colons. Well-known directories are searched after it.
    pub path: &'a str,
    /// When every program we started must be over.
    pub deadline: Deadline,
}

/// Why the fallback did not do what was asked.
#[derive(Debug)]
pub struct Error {
    doing: &'static str,
    family: Family,
    /// What became of each variant that was tried.
    failures: Vec<Failure>,
    /// What was left behind when even the undoing failed.
    left: Vec<String>,
}

/// Makes our chains hold these rules, in every family or in none. Returns the programs that did it.
pub fn apply(ruleset: &Ruleset, tools: Tools<'_>) -> Result<Vec<PathBuf>, Error> {
    let mut used: Vec<Tool> = Vec::new();
    for table in &ruleset.tables {
        match apply_table(table, tools) {
            Ok(tool) => used.push(tool),
            Err(mut error) => {
                // Half a redirect is worse than none: the call fails, and the pod is made anew.
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
    for family in [Family::V4, Family::V6] {
        if ruleset.tables.iter().all(|table| table.family != family) {
            // A family that is not wanted any more. Where its tools or its kernel part are missing it has no rules.
            let _ = remove_family(family, tools);
        }
    }
    Ok(used.into_iter().map(|tool| tool.restore).collect())
}

/// Takes our chains away, whichever variant made them; true if there were any.
pub fn remove(tools: Tools<'_>) -> Result<bool, Error> {
    // Both are tried before the first error is told.
    let removed = [Family::V4, Family::V6].map(|family| remove_family(family, tools));
    removed.into_iter().try_fold(false, |any, one| Ok(any | one?))
}

/// True when rules of ours may be here. Asks the kernel and starts no program, but makes the end of the process wait some
/// milliseconds: to be asked only where the fallback has left its mark, or where there is no nf_tables to hold one.
pub fn may_be_here() -> bool {
    // Of the legacy variant the kernel only tells which tables a namespace has; nothing, while its module is not loaded.
    let legacy = ["ip_tables_names", "ip6_tables_names"].iter().any(|list| {
        fs::read_to_string(format!("/proc/thread-self/net/{list}"))
            .is_ok_and(|tables| tables.lines().any(|table| table == "nat"))
    });
    let (_, _, inbound) = CHAINS[0];
    legacy || nft::has_chain("nat", inbound).unwrap_or(false)
}

/// Compares what is there with what is wanted; the first difference in words.
pub fn check(ruleset: &Ruleset, tools: Tools<'_>) -> Result<Result<(), Difference>, Error> {
    for table in &ruleset.tables {
        let (_, found) = first_that_works("read the rules", table.family, tools)?;
        if let Err(difference) = script::compare(table, &found) {
            return Ok(Err(difference));
        }
    }
    Ok(Ok(()))
}

/// Ok when there are rules of ours and none of them is cut off from the packets, for when nobody can be asked which are
/// wanted.
pub fn check_alone(tools: Tools<'_>) -> Result<Result<(), Difference>, Error> {
    let mut any = false;
    let mut last = None;
    for family in [Family::V4, Family::V6] {
        match first_that_works("read the rules", family, tools) {
            Ok((_, found)) => match script::is_whole(family, &found) {
                Ok(ours) => any |= ours,
                Err(difference) => return Ok(Err(difference)),
            },
            // A kernel or a node without the one family may still have the other.
            Err(error) => last = Some(error),
        }
    }
    match (any, last) {
        (true, _) => Ok(Ok(())),
        (false, None) => Ok(Err(Difference::new(
            "there are no rules of ours in any table nat".into(),
        ))),
        (false, Some(error)) => Err(error),
    }
}

fn apply_table(table: &Table, tools: Tools<'_>) -> Result<Tool, Error> {
    const DOING: &str = "write the rules";
    let (tool, found) = first_that_works(DOING, table.family, tools)?;
    match tool.restore(&script::install(table, &found), tools) {
        Ok(()) => Ok(tool),
        Err(failure) => Err(Error::new(DOING, table.family, vec![failure])),
    }
}

fn remove_family(family: Family, tools: Tools<'_>) -> Result<bool, Error> {
    let mut any = false;
    for tool in tool::find(family, tools).unwrap_or_default() {
        // A variant that cannot even read has no kernel part here, and so no rules.
        let Ok(found) = tool.save(tools) else { continue };
        any |=
            remove_with(&tool, &found, tools).map_err(|e| Error::new("remove the rules", family, vec![e]))?;
    }
    Ok(any)
}

fn remove_with(tool: &Tool, found: &Found, tools: Tools<'_>) -> Result<bool, Failure> {
    match script::removal(found) {
        Some(script) => tool.restore(&script, tools).map(|()| true),
        None => Ok(false),
    }
}

/// The first variant that can read the table `nat` in this namespace, and what it read.
fn first_that_works(doing: &'static str, family: Family, tools: Tools<'_>) -> Result<(Tool, Found), Error> {
    let found = tool::find(family, tools).map_err(|missing| Error::new(doing, family, vec![missing]))?;
    let mut failures = Vec::new();
    for tool in found {
        match tool.save(tools) {
            Ok(found) => return Ok((tool, found)),
            Err(failure) => failures.push(failure),
        }
    }
    Err(Error::new(doing, family, failures))
}

// === impl Error ===

impl Error {
    fn new(doing: &'static str, family: Family, failures: Vec<Failure>) -> Self {
        Self {
            doing,
            family,
            failures,
            left: Vec::new(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        };
        write!(f, "iptables: cannot {} for {family}: ", self.doing)?;
        for (i, failure) in self.failures.iter().enumerate() {
            write!(f, "{}{failure}", if i == 0 { "" } else { "; then " })?;
        }
        for left in &self.left {
            write!(f, "; the other family's rules could not be undone: {left}")?;
        }
        write!(
            f,
            "; load nf_tables into the kernel, or install iptables on the node with what it needs"
        )
    }
}

impl std::error::Error for Error {}

impl CniError for Error {
    fn code(&self) -> Code {
        Code::Rules
    }
}

/// The directories of `PATH`, then those where distributions put iptables.
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
    // A relative entry would be looked up from wherever the runtime happens to be.
    path.split(':')
        .map(Path::new)
        .filter(|folder| folder.is_absolute())
        .chain(USUAL.map(Path::new))
}
