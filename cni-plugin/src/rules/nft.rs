//! nf_tables by netlink: make our tables be a ruleset, take them away, read them back.
//!
//! Works in the network namespace the calling thread is in. Starts no process and needs no tool of the host. Only our
//! own tables are ever touched.

mod decode;
mod elements;
mod encode;
mod error;
mod expression;
mod message;
mod part;
mod socket;
mod uapi;

pub use self::error::Error;
use self::{decode::Dumps, encode::Batch, socket::Conversation, uapi::family_number};
use crate::{
    net::cidr::Family,
    rules::ruleset::{Ruleset, TABLE},
};

/// What it took to make our tables be the ruleset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// There were none before.
    Created,
    /// They took the place of older ones of ours.
    Replaced,
}

/// Makes our tables be exactly these, in one transaction: no packet ever meets some of the rules.
///
/// The usual case, a new pod, takes one message. Only where a table of ours exists already is it replaced, since the
/// kernel waits about 10 ms for the packets under way before it removes one.
pub fn apply(ruleset: &Ruleset) -> Result<Applied, Error> {
    let mut kernel = Conversation::open()?;
    // Creating the wanted tables would not meet one of a family that is not wanted any more.
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

/// True when a table of ours is there, in either family.
pub fn exists() -> Result<bool, Error> {
    Ok(!tables_of(&mut Conversation::open()?, |_| true)?.is_empty())
}

/// Takes our tables away; true if there were any.
pub fn remove() -> Result<bool, Error> {
    let mut kernel = Conversation::open()?;
    let found = tables_of(&mut kernel, |_| true)?;
    if found.is_empty() {
        return Ok(false);
    }
    let nothing = Ruleset::default();
    kernel
        .commit(|first| Batch::replace(&nothing, &found, first))
        .map(|()| true)
}

/// Our tables as the kernel holds them; none is an empty ruleset. An error when something in them is not ours.
pub fn read() -> Result<Ruleset, Error> {
    let mut kernel = Conversation::open()?;
    let mut ruleset = Ruleset::default();
    for family in tables_of(&mut kernel, |_| true)? {
        let dumps = dump(&mut kernel, family)?;
        ruleset.tables.push(decode::table(family, &dumps)?);
    }
    Ok(ruleset)
}

/// Leaves an empty table of ours: it tells later calls, for the price of one question, that the fallback's rules are here.
///
/// Any nf_tables can hold it, also one that lacks what our rules need.
pub fn mark() -> Result<(), Error> {
    let mark = Ruleset::mark();
    match Conversation::open()?.commit(|first| Batch::create(&mark, first)) {
        Err(e) if e.errno() == Some(libc::EEXIST) => Ok(()),
        done => done,
    }
}

/// True when a table of others has this chain, in either family.
pub fn has_chain(table: &str, chain: &str) -> Result<bool, Error> {
    let mut kernel = Conversation::open()?;
    let v4 = kernel.has_chain(family_number(Family::V4), table, chain)?;
    Ok(v4 || kernel.has_chain(family_number(Family::V6), table, chain)?)
}

/// Those of the asked families that have a table of ours.
fn tables_of(kernel: &mut Conversation, asked: impl Fn(Family) -> bool) -> Result<Vec<Family>, Error> {
    let mut found = Vec::new();
    for family in [Family::V4, Family::V6] {
        if asked(family) && kernel.has_table(family_number(family))? {
            found.push(family);
        }
    }
    Ok(found)
}

fn dump(kernel: &mut Conversation, family: Family) -> Result<Dumps, Error> {
    let number = family_number(family);
    let mut dumps = Dumps {
        table: kernel.dump("read our table back", libc::NFT_MSG_GETTABLE, number, |_| {})?,
        chains: kernel.dump("read our chains back", libc::NFT_MSG_GETCHAIN, number, |_| {})?,
        rules: kernel.dump("read our rules back", libc::NFT_MSG_GETRULE, number, |w| {
            w.put_text(uapi::RULE_TABLE, TABLE);
        })?,
        sets: kernel.dump("read our sets back", libc::NFT_MSG_GETSET, number, |w| {
            w.put_text(uapi::SET_TABLE, TABLE);
        })?,
        elements: Vec::new(),
    };
    for set in decode::set_names(family, &dumps.sets)? {
        let elements = kernel.dump("read a set back", libc::NFT_MSG_GETSETELEM, number, |w| {
            w.put_text(uapi::ELEMENTS_TABLE, TABLE);
            w.put_text(uapi::ELEMENTS_SET, set.name());
        })?;
        dumps.elements.push((set, elements));
    }
    Ok(dumps)
}

#[cfg(test)]
mod tests;
