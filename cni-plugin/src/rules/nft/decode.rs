//! The kernel's dumps of the plugin's tables, as a ruleset. Pure; any byte of the input may be wrong.

use super::{
    elements,
    error::NftError,
    expression::{Step, rule},
    message::{Attributes, Message, Messages, field},
    uapi::{self, family_number, hook_number},
};
use crate::{
    net::cidr::Family,
    rules::ruleset::{Chain, Hook, Rule, Set, SetName, TABLE, Table, title},
};

/// The dumps a table is read from, each a sequence of messages.
#[derive(Debug, Clone, Default)]
pub(super) struct Dumps {
    pub(super) table: Vec<u8>,
    pub(super) chains: Vec<u8>,
    pub(super) rules: Vec<u8>,
    pub(super) sets: Vec<u8>,
    /// The elements of each set that [`set_names`] found in `sets`.
    pub(super) elements: Vec<(SetName, Vec<u8>)>,
}

/// Reads the plugin's table; an error names what in it is foreign. Other tables in the dumps are ignored.
pub(super) fn table(family: Family, dumps: &Dumps) -> Result<Table, NftError> {
    for message in of_family(&dumps.table, family) {
        let attributes = message.attributes();
        if attributes.text(uapi::TABLE_NAME) == Some(TABLE)
            && attributes.u32(uapi::TABLE_FLAGS).unwrap_or(0) != 0
        {
            return Err(foreign(family, "it has flags and may be dormant"));
        }
    }
    let mut sets = Vec::new();
    for name in set_names(family, &dumps.sets)? {
        let dumped = dumps.elements.iter().filter(|(set, _)| *set == name);
        let messages = dumped.flat_map(|(_, dump)| of_family(dump, family));
        let elements = elements::read(family, name, messages).ok_or_else(|| {
            let what = format!("set {name} has elements the plugin does not write");
            foreign(family, &what)
        })?;
        sets.push(Set { name, elements });
    }
    let mut chains = chains(family, &dumps.chains)?;
    for message in of_family(&dumps.rules, family) {
        let attributes = message.attributes();
        if attributes.text(uapi::RULE_TABLE) != Some(TABLE) {
            continue;
        }
        let name = attributes.text(uapi::RULE_CHAIN).unwrap_or_default();
        // A foreign chain is an error above; after a change between the dumps, another chain is missing.
        if let Some(chain) = chains.iter_mut().find(|chain| chain.hook.name() == name) {
            chain.rules.push(read_rule(family, chain, &attributes)?);
        }
    }
    Ok(Table { family, sets, chains })
}

/// Returns the plugin's sets in a dump of sets, in table order.
pub(super) fn set_names(family: Family, dump: &[u8]) -> Result<Vec<SetName>, NftError> {
    let mut names = Vec::new();
    for message in of_family(dump, family) {
        let attributes = message.attributes();
        if attributes.text(uapi::SET_TABLE) != Some(TABLE) {
            continue;
        }
        let name = attributes.text(uapi::SET_NAME).unwrap_or_default();
        let known = SetName::from_name(name)
            .filter(|_| attributes.u32(uapi::SET_FLAGS) == Some(libc::NFT_SET_INTERVAL as u32));
        names.push(known.ok_or_else(|| foreign(family, &format!("set {name} is foreign")))?);
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the messages of a dump for this family.
fn of_family(dump: &[u8], family: Family) -> impl Iterator<Item = Message<'_>> {
    Messages::of(dump).filter(move |message| message.family() == Some(family_number(family)))
}

/// An error about the plugin's table of this family.
fn foreign(family: Family, what: &str) -> NftError {
    NftError::foreign(format!(
        "table {} is not as the plugin wrote it: {what}",
        title(family)
    ))
}

// === Chains and rules ===

fn chains(family: Family, dump: &[u8]) -> Result<Vec<Chain>, NftError> {
    let mut chains: Vec<Chain> = Vec::with_capacity(2);
    for message in of_family(dump, family) {
        let attributes = message.attributes();
        if attributes.text(uapi::CHAIN_TABLE) == Some(TABLE) {
            let name = attributes.text(uapi::CHAIN_NAME).unwrap_or_default();
            let hook = [Hook::Prerouting, Hook::Output]
                .into_iter()
                .find(|hook| is_plugin_chain(*hook, &attributes));
            let hook = hook.ok_or_else(|| foreign(family, &format!("chain {name} is foreign")))?;
            chains.push(Chain {
                hook,
                rules: Vec::new(),
            });
        }
    }
    chains.sort_by_key(|chain| chain.hook == Hook::Output);
    Ok(chains)
}

/// Returns true when a chain has the name, type, hook, priority and policy of the plugin's chain at this hook.
fn is_plugin_chain(hook: Hook, chain: &Attributes<'_>) -> bool {
    let place = chain.nested(uapi::CHAIN_HOOK);
    chain.text(uapi::CHAIN_NAME) == Some(hook.name())
        && chain.text(uapi::CHAIN_TYPE) == Some("nat")
        && chain.u32(uapi::CHAIN_POLICY) == Some(libc::NF_ACCEPT as u32)
        && place.u32(uapi::HOOK_NUMBER) == Some(hook_number(hook))
        && place.u32(uapi::HOOK_PRIORITY) == Some(hook.priority().cast_unsigned())
}

fn read_rule(family: Family, chain: &Chain, attributes: &Attributes<'_>) -> Result<Rule, NftError> {
    let place = || format!("rule {} of chain {}", chain.rules.len() + 1, chain.hook.name());
    let steps: Result<Vec<Step>, String> = attributes
        .nested(uapi::RULE_EXPRESSIONS)
        .map(|(_, element)| Step::read(&Attributes::of(element)))
        .collect();
    let steps =
        steps.map_err(|name| foreign(family, &format!("{} has a foreign expression {name}", place())))?;
    let (when, then) =
        rule(&steps, family).ok_or_else(|| foreign(family, &format!("{} is foreign", place())))?;
    let comment = attributes
        .payload(uapi::RULE_USERDATA)
        .and_then(comment)
        .unwrap_or_default();
    Ok(Rule { when, then, comment })
}

/// Returns the comment in a rule's user data, which is a list of type, length and bytes.
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
