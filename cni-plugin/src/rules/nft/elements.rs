//! What is in a set, as the kernel holds it: each range as an element that starts it and one, just behind it, that ends
//! it. Written into messages, and read from dumps in whatever order the kernel gives them.

use std::net::IpAddr;

use super::{
    decode::{foreign, of_family},
    error::Error,
    message::{Attributes, Writer},
    uapi,
};
use crate::{
    policy::{
        cidr::Family,
        ports::{Port, PortRange},
    },
    rules::ruleset::{Elements, SetName},
};

/// A range of keys: its first key, and the first one after it unless it reaches to the end.
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

/// A key in a dump, and whether a range ends before it or starts with it.
type Edge = (u128, bool);

// === Into messages ===

/// The ranges of a set, ascending.
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
                after: after(last),
            })
            .collect(),
    }
}

fn after(last: IpAddr) -> Option<Key> {
    match last {
        IpAddr::V4(a) => a.to_bits().checked_add(1).map(|next| Key::V4(next.to_be_bytes())),
        IpAddr::V6(a) => a.to_bits().checked_add(1).map(|next| Key::V6(next.to_be_bytes())),
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

// === From dumps ===

/// The elements of a set from its dumps, or the error that some are not ours.
pub(super) fn read<'a>(
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
