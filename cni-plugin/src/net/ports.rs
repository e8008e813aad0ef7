//! TCP ports as people write them, and as the ranges an nft interval set needs.

use std::{fmt, num::NonZeroU16, str::FromStr};

/// A TCP port, 1 to 65535. A redirect to port 0 would lose the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port(NonZeroU16);

/// An inclusive range of ports, written `first-last`, or `port` when it holds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    first: Port,
    last: Port,
}

/// Ports in ascending ranges that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortSet(Vec<PortRange>);

/// An entry that is neither a port nor a range of ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPort {
    entry: String,
    why: &'static str,
}

// === impl Port ===

impl Port {
    /// A port known at compile time.
    pub(crate) const fn known(number: u16) -> Self {
        match Self::new(number) {
            Some(port) => port,
            None => panic!("0 is not a port"),
        }
    }

    /// Returns none for 0.
    pub const fn new(number: u16) -> Option<Self> {
        match NonZeroU16::new(number) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// Returns the number, 1 to 65535.
    pub const fn number(self) -> u16 {
        self.0.get()
    }

    /// Checks a number from JSON.
    pub fn from_number(number: i64) -> Result<Self, InvalidPort> {
        u16::try_from(number)
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| InvalidPort::new(&number.to_string(), "is not in 1-65535"))
    }
}

impl FromStr for Port {
    type Err = InvalidPort;

    fn from_str(text: &str) -> Result<Self, InvalidPort> {
        // `u16::from_str` accepts a leading `+`, which port lists do not have.
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(InvalidPort::new(text, "is not a number"));
        }
        text.parse()
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| InvalidPort::new(text, "is not in 1-65535"))
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl PortRange ===

impl PortRange {
    /// Returns the ports from `first` to `last`, or none when the range ends before it starts.
    pub fn new(first: Port, last: Port) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// Returns the lowest port.
    pub const fn first(self) -> Port {
        self.first
    }

    /// Returns the highest port, which belongs to the range.
    pub const fn last(self) -> Port {
        self.last
    }
}

impl From<Port> for PortRange {
    fn from(port: Port) -> Self {
        Self {
            first: port,
            last: port,
        }
    }
}

impl FromStr for PortRange {
    type Err = InvalidPort;

    fn from_str(text: &str) -> Result<Self, InvalidPort> {
        let entry = text.trim();
        let Some((first, last)) = entry.split_once('-') else {
            return entry.parse::<Port>().map(Self::from);
        };
        let (first, last) = match (first.trim().parse::<Port>(), last.trim().parse::<Port>()) {
            (Ok(first), Ok(last)) => (first, last),
            (Err(e), _) | (_, Err(e)) => return Err(InvalidPort::new(entry, e.why)),
        };
        if first > last {
            return Err(InvalidPort::new(entry, "is a range that ends before it starts"));
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

// === impl PortSet ===

impl PortSet {
    /// Parses the entries of a list. Blank entries, which templates produce, are ignored.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidPort> {
        entries
            .into_iter()
            .map(str::trim)
            .filter(|e| !e.is_empty())
            .map(PortRange::from_str)
            .collect()
    }

    /// Parses a comma-separated list, as in an annotation.
    pub fn from_annotation(list: &str) -> Result<Self, InvalidPort> {
        Self::from_entries(list.split(','))
    }

    /// Returns the ranges, ascending, with at least one port between any two.
    pub fn ranges(&self) -> &[PortRange] {
        &self.0
    }

    /// Returns true when the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true when the set contains the port.
    pub fn contains(&self, port: Port) -> bool {
        self.0.iter().any(|r| r.first <= port && port <= r.last)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        self.0.into_iter().chain(other.0).collect()
    }
}

impl FromIterator<PortRange> for PortSet {
    fn from_iter<I: IntoIterator<Item = PortRange>>(ranges: I) -> Self {
        let mut ranges: Vec<PortRange> = ranges.into_iter().collect();
        ranges.sort_unstable_by_key(|r| r.first);
        let mut merged: Vec<PortRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(before) if range.first.number() <= before.last.number().saturating_add(1) => {
                    before.last = before.last.max(range.last);
                }
                _ => merged.push(range),
            }
        }
        Self(merged)
    }
}

impl FromIterator<Port> for PortSet {
    fn from_iter<I: IntoIterator<Item = Port>>(ports: I) -> Self {
        ports.into_iter().map(PortRange::from).collect()
    }
}

impl fmt::Display for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            write!(f, "{}{range}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

// === impl InvalidPort ===

impl InvalidPort {
    fn new(entry: &str, why: &'static str) -> Self {
        // An annotation may have 256 KB; the message should stay short.
        let entry = entry.chars().take(40).collect();
        Self { entry, why }
    }
}

impl fmt::Display for InvalidPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} {}; write a port from 1 to 65535 or a range such as 1000-2000",
            self.entry, self.why
        )
    }
}

impl std::error::Error for InvalidPort {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_sorted_and_merged() {
        for (written, kept) in [
            ("", ""),
            ("80", "80"),
            (" 6379 , 3306", "3306, 6379"),
            ("10-20,15-30,31,33", "10-31, 33"),
            ("1-65535,5", "1-65535"),
            ("65534,65535", "65534-65535"),
            ("80,80,80", "80"),
            ("80,,90,", "80, 90"),
            ("7 - 9", "7-9"),
        ] {
            let set = PortSet::from_annotation(written).unwrap();
            assert_eq!(set.to_string(), kept, "from {written:?}");
            assert_eq!(
                PortSet::from_annotation(kept).unwrap(),
                set,
                "round trip of {kept:?}"
            );
        }
    }

    #[test]
    fn invalid_entry_is_named() {
        for entry in [
            "0", "65536", "80-", "-80", "90-80", "abc", "+80", "8 0", "0-5", "1-2-3", "９０",
        ] {
            let error = PortSet::from_annotation(&format!("1,{entry}")).unwrap_err();
            assert!(error.to_string().contains(entry), "{entry:?}: {error}");
        }
    }

    #[test]
    fn many_entries_merge_into_one_range() {
        let list: Vec<String> = (1..=10_000).rev().map(|p| p.to_string()).collect();
        assert_eq!(
            PortSet::from_annotation(&list.join(",")).unwrap().to_string(),
            "1-10000"
        );
    }
}
