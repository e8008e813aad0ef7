//! nf_tables through netlink: programs, removes and reads the plugin's tables.
//!
//! Works in the network namespace of the calling thread, without a process or a tool of the host. Touches no other tables.

mod decode;
mod elements;
mod encode;
mod error;
mod expression;
mod message;
mod part;
mod socket;
mod uapi;

pub use self::error::NftError;
use self::{decode::Dumps, encode::Batch, socket::NftSocket, uapi::family_number};
use crate::{
    net::cidr::Family,
    rules::ruleset::{Ruleset, TABLE},
};

/// How a ruleset was programmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// There were no tables of the plugin.
    Created,
    /// Older tables of the plugin were replaced.
    Replaced,
}

/// Programs exactly these tables in one transaction, so that no packet sees part of the rules.
///
/// A new pod, the usual case, takes one message. A table is replaced only if it exists, since the kernel waits about 10 ms
/// for packets in flight before it removes one.
pub fn apply(ruleset: &Ruleset) -> Result<Applied, NftError> {
    let mut kernel = NftSocket::open()?;
    // Creating the wanted tables would not fail for a table of a family that is no longer wanted.
    let unwanted = tables_of(&mut kernel, |family| {
        ruleset.tables.iter().all(|table| table.family != family)
    })?;
    if unwanted.is_empty() {
        match kernel.commit(|first| Batch::create(ruleset, first)) {
            Ok(()) => return Ok(Applied::Created),
            Err(e) if e.errno() == Some(libc::EEXIST) => {}
            Err(e) => return Err(e),
        }
    }
    kernel
        .commit(|first| Batch::replace(ruleset, &unwanted, first))
        .map(|()| Applied::Replaced)
}

/// Returns true when the plugin has a table in either family.
pub fn exists() -> Result<bool, NftError> {
    Ok(!tables_of(&mut NftSocket::open()?, |_| true)?.is_empty())
}

/// Removes the plugin's tables. Returns true if there were any.
pub fn remove() -> Result<bool, NftError> {
    let mut kernel = NftSocket::open()?;
    let found = tables_of(&mut kernel, |_| true)?;
    if found.is_empty() {
        return Ok(false);
    }
    let nothing = Ruleset::default();
    kernel
        .commit(|first| Batch::replace(&nothing, &found, first))
        .map(|()| true)
}

/// Reads the plugin's tables from the kernel. An error when they contain anything foreign.
pub fn read() -> Result<Ruleset, NftError> {
    let mut kernel = NftSocket::open()?;
    let mut ruleset = Ruleset::default();
    for family in tables_of(&mut kernel, |_| true)? {
        let dumps = dump(&mut kernel, family)?;
        ruleset.tables.push(decode::table(family, &dumps)?);
    }
    Ok(ruleset)
}

/// Adds an empty table as a mark that the fallback's rules are here, so that later calls need only one request to know.
///
/// Any nf_tables supports it, even without the modules that the rules need.
pub fn mark() -> Result<(), NftError> {
    let mark = Ruleset::mark();
    match NftSocket::open()?.commit(|first| Batch::create(&mark, first)) {
        Err(e) if e.errno() == Some(libc::EEXIST) => Ok(()),
        done => done,
    }
}

/// Returns true when this table has this chain, in either family.
pub fn has_chain(table: &str, chain: &str) -> Result<bool, NftError> {
    let mut kernel = NftSocket::open()?;
    let v4 = kernel.has_chain(family_number(Family::V4), table, chain)?;
    Ok(v4 || kernel.has_chain(family_number(Family::V6), table, chain)?)
}

/// Returns the families, among those asked for, in which the plugin has a table.
fn tables_of(kernel: &mut NftSocket, asked: impl Fn(Family) -> bool) -> Result<Vec<Family>, NftError> {
    let mut found = Vec::new();
    for family in Family::ALL {
        if asked(family) && kernel.has_table(family_number(family))? {
            found.push(family);
        }
    }
    Ok(found)
}

fn dump(kernel: &mut NftSocket, family: Family) -> Result<Dumps, NftError> {
    let number = family_number(family);
    let mut dumps = Dumps {
        table: kernel.dump("read the table", libc::NFT_MSG_GETTABLE, number, |_| {})?,
        chains: kernel.dump("read the chains", libc::NFT_MSG_GETCHAIN, number, |_| {})?,
        rules: kernel.dump("read the rules", libc::NFT_MSG_GETRULE, number, |w| {
            w.put_text(uapi::RULE_TABLE, TABLE);
        })?,
        sets: kernel.dump("read the sets", libc::NFT_MSG_GETSET, number, |w| {
            w.put_text(uapi::SET_TABLE, TABLE);
        })?,
        elements: Vec::new(),
    };
    for set in decode::set_names(family, &dumps.sets)? {
        let elements = kernel.dump("read a set", libc::NFT_MSG_GETSETELEM, number, |w| {
            w.put_text(uapi::ELEMENTS_TABLE, TABLE);
            w.put_text(uapi::ELEMENTS_SET, set.name());
        })?;
        dumps.elements.push((set, elements));
    }
    Ok(dumps)
}

#[cfg(test)]
mod tests;
