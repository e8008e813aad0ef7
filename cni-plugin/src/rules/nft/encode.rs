//! A ruleset as one batch of netlink messages.

use super::{
    elements::key_ranges,
    expression::steps,
    message::{Attributes, Writer},
    part::Part,
    uapi::{self, family_number, hook_number},
};
use crate::{
    net::cidr::Family,
    rules::ruleset::{Chain, Elements, Rule, Ruleset, Set, TABLE, Table},
};

/// Ranges in one message: two elements each, of at most 32 bytes, in a list of less than 64 KiB.
const RANGES_PER_MESSAGE: usize = 1000;

/// Messages that the kernel commits all or nothing.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    writer: Writer,
    /// The sequence number of the first message.
    first: u32,
    /// The part and the offset of each message.
    parts: Vec<(Part<'a>, usize)>,
}

/// Returns the type of an nf_tables message: its subsystem and `NFT_MSG_*`.
pub(super) fn message_type(message: libc::c_int) -> u16 {
    (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | message as u16
}

// === impl Batch ===

impl<'a> Batch<'a> {
    /// A batch that adds tables. The kernel refuses it with `EEXIST` when one of them exists.
    pub(super) fn create(ruleset: &'a Ruleset, first: u32) -> Self {
        let mut batch = Self::begin(first);
        for table in &ruleset.tables {
            batch.add_table(table.family, libc::NLM_F_EXCL);
            batch.fill_table(table);
        }
        batch.end()
    }

    /// A batch that adds tables in place of existing ones, and removes those of the unwanted families.
    pub(super) fn replace(ruleset: &'a Ruleset, unwanted: &[Family], first: u32) -> Self {
        let mut batch = Self::begin(first);
        for &family in unwanted {
            batch.remove_table(family);
        }
        for table in &ruleset.tables {
            batch.remove_table(table.family);
            batch.add_table(table.family, 0);
            batch.fill_table(table);
        }
        batch.end()
    }

    /// Returns the bytes to send to the kernel.
    pub(super) fn bytes(&self) -> &[u8] {
        self.writer.bytes()
    }

    /// Returns true when there is nothing between begin and end.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.len() <= 2
    }

    /// Returns the sequence number of the message that is answered on success: the last before the end.
    pub(super) fn last(&self) -> u32 {
        self.first.wrapping_add(self.parts.len() as u32).wrapping_sub(2)
    }

    /// Returns the part with this sequence number, if it belongs to the batch.
    pub(super) fn part(&self, sequence: u32) -> Option<Part<'a>> {
        self.parts
            .get(sequence.wrapping_sub(self.first) as usize)
            .map(|(part, _)| *part)
    }

    /// Returns the name of the expression at an offset in a message. The kernel reports the offset of what it refuses.
    pub(super) fn expression_at(&self, sequence: u32, offset: usize) -> Option<&str> {
        let (_, start) = self.parts.get(sequence.wrapping_sub(self.first) as usize)?;
        let element = Attributes::of(self.bytes().get(start.checked_add(offset)?..)?).next()?;
        Attributes::of(element.1).text(uapi::EXPRESSION_NAME)
    }

    fn begin(first: u32) -> Self {
        let mut batch = Self {
            writer: Writer::default(),
            first,
            parts: Vec::with_capacity(32),
        };
        batch.marker(Part::Begin, libc::NFNL_MSG_BATCH_BEGIN);
        batch
    }

    fn end(mut self) -> Self {
        // On success only this message is answered; a message that fails always is.
        self.writer.add_flags(libc::NLM_F_ACK as u16);
        self.marker(Part::End, libc::NFNL_MSG_BATCH_END);
        self
    }

    /// Adds the first or last message, which names the subsystem in the resource field.
    fn marker(&mut self, part: Part<'a>, kind: libc::c_int) {
        let sequence = self.record(part);
        let flags = libc::NLM_F_REQUEST as u16;
        self.writer
            .message(kind as u16, flags, sequence, 0, libc::NFNL_SUBSYS_NFTABLES as u16);
    }

    fn message(&mut self, part: Part<'a>, kind: libc::c_int, flags: libc::c_int, family: Family) {
        let sequence = self.record(part);
        let flags = (libc::NLM_F_REQUEST | flags) as u16;
        self.writer
            .message(message_type(kind), flags, sequence, family_number(family), 0);
    }

    /// Records the part and the offset of the next message. Returns its sequence number.
    fn record(&mut self, part: Part<'a>) -> u32 {
        self.parts.push((part, self.writer.bytes().len()));
        self.first.wrapping_add(self.parts.len() as u32).wrapping_sub(1)
    }

    fn add_table(&mut self, family: Family, flags: libc::c_int) {
        self.message(
            Part::AddTable(family),
            libc::NFT_MSG_NEWTABLE,
            libc::NLM_F_CREATE | flags,
            family,
        );
        self.writer.put_text(uapi::TABLE_NAME, TABLE);
    }

    /// Adds the table first, because the removal of an absent one is an error.
    fn remove_table(&mut self, family: Family) {
        self.add_table(family, 0);
        self.message(Part::RemoveTable(family), libc::NFT_MSG_DELTABLE, 0, family);
        self.writer.put_text(uapi::TABLE_NAME, TABLE);
    }

    fn fill_table(&mut self, table: &'a Table) {
        for (i, set) in table.sets.iter().enumerate() {
            self.add_set(table, set, i as u32 + 1);
        }
        for chain in &table.chains {
            self.add_chain(table, chain);
            for (i, rule) in chain.rules.iter().enumerate() {
                self.add_rule(table, chain, i, rule);
            }
        }
    }

    fn add_set(&mut self, table: &'a Table, set: &'a Set, id: u32) {
        let (kind, length) = match (&set.elements, table.family) {
            (Elements::Ports(_), _) => (uapi::TYPE_PORT, 2),
            (Elements::Addresses(_), Family::V4) => (uapi::TYPE_IPV4_ADDRESS, 4),
            (Elements::Addresses(_), Family::V6) => (uapi::TYPE_IPV6_ADDRESS, 16),
        };
        self.message(
            Part::AddSet(table, set),
            libc::NFT_MSG_NEWSET,
            libc::NLM_F_CREATE,
            table.family,
        );
        self.writer.put_text(uapi::SET_TABLE, TABLE);
        self.writer.put_text(uapi::SET_NAME, set.name.name());
        self.writer
            .put_u32(uapi::SET_FLAGS, libc::NFT_SET_INTERVAL as u32);
        self.writer.put_u32(uapi::SET_KEY_TYPE, kind);
        self.writer.put_u32(uapi::SET_KEY_LENGTH, length);
        // Unique within the batch; the kernel requires it although rules refer to the set by name.
        self.writer.put_u32(uapi::SET_ID, id);

        let ranges = key_ranges(&set.elements);
        for ranges in ranges.chunks(RANGES_PER_MESSAGE) {
            let part = Part::AddElements(table, set);
            self.message(part, libc::NFT_MSG_NEWSETELEM, libc::NLM_F_CREATE, table.family);
            self.writer.put_text(uapi::ELEMENTS_TABLE, TABLE);
            self.writer.put_text(uapi::ELEMENTS_SET, set.name.name());
            self.writer.nest(uapi::ELEMENTS_LIST, |w| {
                ranges.iter().for_each(|range| range.write(w))
            });
        }
    }

    fn add_chain(&mut self, table: &'a Table, chain: &'a Chain) {
        let part = Part::AddChain(table, chain);
        self.message(part, libc::NFT_MSG_NEWCHAIN, libc::NLM_F_CREATE, table.family);
        self.writer.put_text(uapi::CHAIN_TABLE, TABLE);
        self.writer.put_text(uapi::CHAIN_NAME, chain.hook.name());
        self.writer.nest(uapi::CHAIN_HOOK, |w| {
            w.put_u32(uapi::HOOK_NUMBER, hook_number(chain.hook));
            w.put_u32(uapi::HOOK_PRIORITY, chain.hook.priority().cast_unsigned());
        });
        self.writer.put_u32(uapi::CHAIN_POLICY, libc::NF_ACCEPT as u32);
        self.writer.put_text(uapi::CHAIN_TYPE, "nat");
    }

    fn add_rule(&mut self, table: &'a Table, chain: &'a Chain, index: usize, rule: &Rule) {
        let part = Part::AddRule(table, chain, index);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
        self.message(part, libc::NFT_MSG_NEWRULE, flags, table.family);
        self.writer.put_text(uapi::RULE_TABLE, TABLE);
        self.writer.put_text(uapi::RULE_CHAIN, chain.hook.name());
        self.writer.nest(uapi::RULE_EXPRESSIONS, |w| {
            for step in steps(rule.when, rule.then, table.family) {
                step.write(w);
            }
        });
        let mut comment = vec![uapi::USERDATA_COMMENT, rule.comment.len() as u8 + 1];
        comment.extend_from_slice(rule.comment.as_bytes());
        comment.push(0);
        self.writer.put(uapi::RULE_USERDATA, &comment);
    }
}
