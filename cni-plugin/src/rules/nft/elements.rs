//! The elements of a set as the kernel stores them: for each range its first key, and as an end mark the key after it.
//! Written into messages, and read from dumps in any order.

use std::net::IpAddr;

use super::{
    message::{Attributes, Message, Writer},
    uapi,
};
use crate::{
    net::{
        cidr::{Family, next},
        ports::{Port, PortRange},
    },
    rules::ruleset::{Elements, SetName},
};

/// A range of keys: the first key, and the key after the last one, none at the end of the key space.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyRange {
    first: Key,
    after: Option<Key>,
}

#[derive(Debug, Clone, Copy)]
enum Key {
    Port([u8; 2]),
    V4([u8; 4]),
    V6([u8; 16]),
}

/// A key in a dump, and true when a range ends before it, false when one starts with it.
type Edge = (u128, bool);

// === Writing ===

/// Returns the ranges of a set, ascending.
pub(super) fn key_ranges(elements: &Elements) -> Vec<KeyRange> {
    match elements {
        Elements::Ports(ports) => ports
            .ranges()
            .iter()
            .map(|range| KeyRange {
                first: Key::Port(range.first().number().to_be_bytes()),
                after: range
                    .last()
                    .number()
                    .checked_add(1)
                    .map(|p| Key::Port(p.to_be_bytes())),
            })
            .collect(),
        Elements::Addresses(ranges) => ranges
            .iter()
            .map(|&(first, last)| KeyRange {
                first: Key::of(first),
                after: next(last).map(Key::of),
            })
            .collect(),
    }
}

impl Key {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(a) => Self::V4(a.octets()),
            IpAddr::V6(a) => Self::V6(a.octets()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Port(bytes) => bytes,
            Self::V4(bytes) => bytes,
            Self::V6(bytes) => bytes,
        }
    }
}

impl KeyRange {
    /// Writes the range as one or two elements of a list.
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.nest(uapi::LIST_ELEMENT, |w| {
            w.nest(uapi::ELEMENT_KEY, |w| w.put(uapi::DATA_VALUE, self.first.bytes()));
        });
        if let Some(after) = &self.after {
            writer.nest(uapi::LIST_ELEMENT, |w| {
                w.put_u32(uapi::ELEMENT_FLAGS, libc::NFT_SET_ELEM_INTERVAL_END as u32);
                w.nest(uapi::ELEMENT_KEY, |w| w.put(uapi::DATA_VALUE, after.bytes()));
            });
        }
    }
}

// === Reading ===

/// Reads the elements of a set; none when some of them cannot be the plugin's.
pub(super) fn read<'a>(
    family: Family,
    name: SetName,
    messages: impl Iterator<Item = Message<'a>>,
) -> Option<Elements> {
    let width = match (name, family) {
        (SetName::SkipSources, Family::V4) => 4,
        (SetName::SkipSources, Family::V6) => 16,
        _ => 2,
    };
    let mut edges = Vec::new();
    for message in messages {
        for (_, element) in message.attributes().nested(uapi::ELEMENTS_LIST) {
            edges.push(edge(&Attributes::of(element), width)?);
        }
    }
    let ranges = ranges(edges, width)?.into_iter();
    if name == SetName::SkipSources {
        let addresses = ranges.map(|(first, last)| (address(family, first), address(family, last)));
        return Some(Elements::Addresses(addresses.collect()));
    }
    let port = |key: u128| u16::try_from(key).ok().and_then(Port::new);
    let ports = ranges.map(|(first, last)| PortRange::new(port(first)?, port(last)?));
    ports.collect::<Option<_>>().map(Elements::Ports)
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

/// Pairs edges, given in any order, into inclusive ranges; none when they do not pair up.
fn ranges(mut edges: Vec<Edge>, width: usize) -> Option<Vec<(u128, u128)>> {
    let highest = u128::MAX >> (128 - 8 * width as u32);
    // An end sorts before a start with the same key: the ranges are adjacent.
    edges.sort_unstable_by_key(|&(key, ends)| (key, !ends));
    // `nft` writes an end mark at 0 before the first range; it has no meaning.
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
        // Keys of this family are 4 bytes.
        Family::V4 => IpAddr::V4((number as u32).into()),
        Family::V6 => IpAddr::V6(number.into()),
    }
}
