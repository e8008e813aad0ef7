//! What the kernel dumps of our tables, as a ruleset. Pure: bytes in, and every one of them may be wrong.

use std::net::IpAddr;

use super::{
    encode::{family_number, hook_number},
    error::Error,
    expression::{Step, rule},
    message::{Attributes, Message, Messages, field},
    uapi,
};
use crate::{
    cidr::Family,
    ports::{Port, PortRange},
    ruleset::{Chain, Elements, Hook, Rule, Set, SetName, TABLE, Table},
};

/// The dumps a table is read from, each as messages one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Dumps {
    pub(super) table: Vec<u8>,
    pub(super) chains: Vec<u8>,
    pub(super) rules: Vec<u8>,
    pub(super) sets: Vec<u8>,
    /// The elements of each set that [`set_names`] found in `sets`.
    pub(super) elements: Vec<(SetName, Vec<u8>)>,
}

/// The table, or what in it is not ours. Nothing outside our table is looked at.
pub(super) fn table(family: Family, dumps: &Dumps) -> Result<Table, Error> {
    for message in of_family(&dumps.table, family) {
        let attributes = message.attributes();
        if attributes.text(uapi::TABLE_NAME) == Some(TABLE)
            && attributes.u32(uapi::TABLE_FLAGS).unwrap_or(0) != 0
        {
            return Err(foreign(family, "it has flags, so it may be dormant"));
        }
    }
    let mut sets = Vec::new();
    for name in set_names(family, &dumps.sets)? {
        let dumped = dumps
            .elements
            .iter()
            .filter(|(set, _)| *set == name)
            .map(|(_, dump)| dump.as_slice());
        sets.push(Set {
            name,
            elements: elements(family, name, dumped)?,
        });
    }
    let mut chains = chains(family, &dumps.chains)?;
    for message in of_family(&dumps.rules, family) {
        let attributes = message.attributes();
        if attributes.text(uapi::RULE_TABLE) != Some(TABLE) {
            continue;
        }
        let name = attributes.text(uapi::RULE_CHAIN).unwrap_or_default();
        // A chain that is not ours has been refused above; one that came since shows in its missing neighbour.
        if let Some(chain) = chains.iter_mut().find(|chain| chain.hook.name() == name) {
            chain.rules.push(read_rule(family, chain, &attributes)?);
        }
    }
    Ok(Table { family, sets, chains })
}

/// Our sets in a dump of sets, in the order they have in a table.
pub(super) fn set_names(family: Family, dump: &[u8]) -> Result<Vec<SetName>, Error> {
    let mut names = Vec::new();
    for message in of_family(dump, family) {
        let attributes = message.attributes();
        if attributes.text(uapi::SET_TABLE) != Some(TABLE) {
            continue;
        }
        let name = attributes.text(uapi::SET_NAME).unwrap_or_default();
        let known = SetName::from_name(name)
            .filter(|_| attributes.u32(uapi::SET_FLAGS) == Some(libc::NFT_SET_INTERVAL as u32));
        names.push(known.ok_or_else(|| foreign(family, &format!("the set {name} was not made by us")))?);
    }
    names.sort_unstable();
    Ok(names)
}

fn of_family(dump: &[u8], family: Family) -> impl Iterator<Item = Message<'_>> {
    Messages::of(dump).filter(move |message| message.family() == Some(family_number(family)))
}

fn foreign(family: Family, what: &str) -> Error {
    let title = Table {
        family,
        sets: vec![],
        chains: vec![],
    }
    .title();
    Error::not_ours(format!("table {title} is not as we left it: {what}"))
}

// === Chains and rules ===

fn chains(family: Family, dump: &[u8]) -> Result<Vec<Chain>, Error> {
    let mut chains: Vec<Chain> = Vec::with_capacity(2);
    for message in of_family(dump, family) {
        let attributes = message.attributes();
        if attributes.text(uapi::CHAIN_TABLE) == Some(TABLE) {
            let name = attributes.text(uapi::CHAIN_NAME).unwrap_or_default();
            let hook = [Hook::Prerouting, Hook::Output]
                .into_iter()
                .find(|hook| stands_at(*hook, &attributes));
            let hook =
                hook.ok_or_else(|| foreign(family, &format!("the chain {name} was not made by us")))?;
            chains.push(Chain {
                hook,
                rules: Vec::new(),
            });
        }
    }
    chains.sort_by_key(|chain| chain.hook == Hook::Output);
    Ok(chains)
}

/// True when a chain has the name, the type, the place and the policy of ours at this hook.
fn stands_at(hook: Hook, chain: &Attributes<'_>) -> bool {
    let place = chain.nested(uapi::CHAIN_HOOK);
    chain.text(uapi::CHAIN_NAME) == Some(hook.name())
        && chain.text(uapi::CHAIN_TYPE) == Some("nat")
        && chain.u32(uapi::CHAIN_POLICY) == Some(libc::NF_ACCEPT as u32)
        && place.u32(uapi::HOOK_NUMBER) == Some(hook_number(hook))
        && place.u32(uapi::HOOK_PRIORITY) == Some(hook.priority().cast_unsigned())
}

fn read_rule(family: Family, chain: &Chain, attributes: &Attributes<'_>) -> Result<Rule, Error> {
    let place = || format!("rule {} of chain {}", chain.rules.len() + 1, chain.hook.name());
    let steps: Result<Vec<Step>, String> = attributes
        .nested(uapi::RULE_EXPRESSIONS)
        .map(|(_, element)| Step::read(&Attributes::of(element)))
        .collect();
    let steps =
        steps.map_err(|name| foreign(family, &format!("{} has an expression {name} of others", place())))?;
    let (when, then) =
        rule(&steps, family).ok_or_else(|| foreign(family, &format!("{} is not one of ours", place())))?;
    let comment = attributes
        .payload(uapi::RULE_USERDATA)
        .and_then(comment)
        .unwrap_or_default();
    Ok(Rule { when, then, comment })
}

/// The comment in a rule's user data, which is a list of type, length and bytes.
fn comment(mut userdata: &[u8]) -> Option<String> {
    loop {
        let [kind, length] = field(userdata, 0)?;
        let bytes = userdata.get(2..2 + usize::from(length))?;
        if kind == uapi::USERDATA_COMMENT {
            let text = bytes.split(|&b| b == 0).next()?;
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        userdata = &userdata[2 + bytes.len()..];
    }
}

// === Elements ===

/// A key in a set, and whether a range ends before it or starts with it.
type Edge = (u128, bool);

fn elements<'a>(
    family: Family,
    name: SetName,
    dumps: impl Iterator<Item = &'a [u8]>,
) -> Result<Elements, Error> {
    let odd = || foreign(family, &format!("the set {name} has elements we do not write"));
    let width = match (name, family) {
        (SetName::SkipSources, Family::V4) => 4,
        (SetName::SkipSources, Family::V6) => 16,
        _ => 2,
    };
    let mut edges = Vec::new();
    for message in dumps.flat_map(|dump| of_family(dump, family)) {
        for (_, element) in message.attributes().nested(uapi::ELEMENTS_LIST) {
            edges.push(edge(&Attributes::of(element), width).ok_or_else(odd)?);
        }
    }
    let ranges = ranges(edges, width).ok_or_else(odd)?;
    if name == SetName::SkipSources {
        return Ok(Elements::Addresses(
            ranges
                .into_iter()
                .map(|(first, last)| (address(family, first), address(family, last)))
                .collect(),
        ));
    }
    let port = |key: u128| u16::try_from(key).ok().and_then(Port::new);
    let ports = ranges
        .into_iter()
        .map(|(first, last)| PortRange::new(port(first)?, port(last)?));
    ports.collect::<Option<_>>().map(Elements::Ports).ok_or_else(odd)
}

fn edge(element: &Attributes<'_>, width: usize) -> Option<Edge> {
    let key = element.nested(uapi::ELEMENT_KEY).payload(uapi::DATA_VALUE)?;
    let ends = match element.u32(uapi::ELEMENT_FLAGS).unwrap_or(0) {
        0 => false,
        flags if flags == libc::NFT_SET_ELEM_INTERVAL_END as u32 => true,
        _ => return None,
    };
    let mut number = [0; 16];
    (key.len() == width).then(|| number[16 - width..].copy_from_slice(key))?;
    Some((u128::from_be_bytes(number), ends))
}

/// Edges in any order as inclusive ranges; none where they do not pair up.
fn ranges(mut edges: Vec<Edge>, width: usize) -> Option<Vec<(u128, u128)>> {
    let highest = u128::MAX >> (128 - 8 * width as u32);
    // An end goes before a start at the same key: the one range touches the next.
    edges.sort_unstable_by_key(|&(key, ends)| (key, !ends));
    // `nft` writes an end at 0 in front of the first range; it means nothing.
    if edges.first() == Some(&(0, true)) {
        edges.remove(0);
    }
    let mut ranges: Vec<(u128, u128)> = Vec::with_capacity(edges.len() / 2 + 1);
    for pair in edges.chunks(2) {
        ranges.push(match *pair {
            [(first, false), (after, true)] => (first, after - 1),
            [(first, false)] => (first, highest),
            _ => return None,
        });
    }
    Some(ranges)
}

fn address(family: Family, number: u128) -> IpAddr {
    match family {
        // At most 4 bytes were read.
        Family::V4 => IpAddr::V4((number as u32).into()),
        Family::V6 => IpAddr::V6(number.into()),
    }
}
