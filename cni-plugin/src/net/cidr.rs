//! Subnets as people write them, split by family, merged as an nft interval set needs them.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// An address family of the network layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

/// A subnet. Host bits are cleared on the way in, as iptables does; an IPv4-mapped one becomes IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    first: IpAddr,
    prefix: u8,
}

/// Subnets of both families; none lies inside another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CidrSet(Vec<Cidr>);

/// Why an entry is not a subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCidr(String);

// === impl Cidr ===

impl Cidr {
    /// The family of the subnet's addresses.
    pub fn family(self) -> Family {
        match self.first {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// The lowest address of the subnet.
    pub fn first(self) -> IpAddr {
        self.first
    }

    /// The highest address of the subnet, itself part of it.
    pub fn last(self) -> IpAddr {
        match self.first {
            IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() | !mask4(self.prefix)).into(),
            IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits() | !mask6(self.prefix)).into(),
        }
    }

    /// True when the address lies in the subnet.
    pub fn contains(self, address: IpAddr) -> bool {
        self.first <= address
            && address <= self.last()
            && matches!(
                (self.first, address),
                (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_))
            )
    }

    fn new(address: IpAddr, prefix: u8) -> Self {
        let first = match address {
            IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() & mask4(prefix)).into(),
            IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits() & mask6(prefix)).into(),
        };
        Self { first, prefix }
    }
}

/// The network mask of a prefix length from 0 to 32.
fn mask4(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

/// The network mask of a prefix length from 0 to 128.
fn mask6(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let invalid = || InvalidCidr(text.chars().take(60).collect());
        let (address, prefix) = text.trim().split_once('/').ok_or_else(invalid)?;
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid());
        }
        let prefix: u8 = prefix.parse().map_err(|_| invalid())?;
        match address {
            IpAddr::V4(_) if prefix <= 32 => Ok(Self::new(address, prefix)),
            IpAddr::V6(v6) if prefix <= 128 => match v6.to_ipv4_mapped() {
                // No packet of the IPv6 table ever carries a mapped source; the IPv4 one does.
                Some(v4) if prefix >= 96 => Ok(Self::new(v4.into(), prefix - 96)),
                _ => Ok(Self::new(address, prefix)),
            },
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

// === impl CidrSet ===

impl CidrSet {
    /// Every entry of a list, blank ones left out (templates write them), or the first that is no subnet.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidCidr> {
        entries
            .into_iter()
            .map(str::trim)
            .filter(|e| !e.is_empty())
            .map(Cidr::from_str)
            .collect()
    }

    /// A comma-separated list as an annotation holds it.
    pub fn from_annotation(list: &str) -> Result<Self, InvalidCidr> {
        Self::from_entries(list.split(','))
    }

    /// The subnets of one family, ascending, none inside another.
    pub fn of(&self, family: Family) -> impl Iterator<Item = Cidr> + '_ {
        self.0.iter().copied().filter(move |c| c.family() == family)
    }

    /// The same addresses as inclusive ranges with a gap between any two: neighbours such as `10.0.0.0/24` and
    /// `10.0.1.0/24` are one range.
    pub fn ranges(&self, family: Family) -> Vec<(IpAddr, IpAddr)> {
        let mut ranges: Vec<(IpAddr, IpAddr)> = Vec::new();
        for cidr in self.of(family) {
            match ranges.last_mut() {
                Some((_, last)) if next(*last) == Some(cidr.first()) => *last = cidr.last(),
                _ => ranges.push((cidr.first(), cidr.last())),
            }
        }
        ranges
    }

    /// True when the set holds no subnet of either family.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The address after this one, or none after the last.
fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(a) => a.to_bits().checked_add(1).map(|b| Ipv4Addr::from_bits(b).into()),
        IpAddr::V6(a) => a.to_bits().checked_add(1).map(|b| Ipv6Addr::from_bits(b).into()),
    }
}

impl FromIterator<Cidr> for CidrSet {
    fn from_iter<I: IntoIterator<Item = Cidr>>(cidrs: I) -> Self {
        let mut cidrs: Vec<Cidr> = cidrs.into_iter().collect();
        // By first address, the wider one first: what lies inside another then follows it.
        cidrs.sort_unstable();
        let mut kept: Vec<Cidr> = Vec::with_capacity(cidrs.len());
        for cidr in cidrs {
            if !kept.last().is_some_and(|wider| wider.contains(cidr.first())) {
                kept.push(cidr);
            }
        }
        Self(kept)
    }
}

impl fmt::Display for CidrSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, cidr) in self.0.iter().enumerate() {
            write!(f, "{}{cidr}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for InvalidCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a subnet; write an address and a prefix length such as 10.0.0.0/8",
            self.0
        )
    }
}

impl std::error::Error for InvalidCidr {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_sorted_with_host_bits_cleared_and_inner_subnets_left_out() {
        for (written, kept) in [
            ("", ""),
            ("10.0.0.0/8, 172.16.0.0/12", "10.0.0.0/8, 172.16.0.0/12"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.0.0.0/8,10.1.0.0/16,10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0,1.2.3.4/32", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("fd00::1/8,10.0.0.0/24", "10.0.0.0/24, fd00::/8"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0:0/95", "::fffe:0:0/95"),
        ] {
            let set = CidrSet::from_annotation(written).unwrap();
            assert_eq!(set.to_string(), kept, "from {written:?}");
            assert_eq!(
                CidrSet::from_annotation(kept).unwrap(),
                set,
                "round trip of {kept:?}"
            );
        }
    }

    #[test]
    fn neighbours_are_one_range() {
        let set = CidrSet::from_annotation("10.0.1.0/24,10.0.0.0/24,10.0.3.0/24,255.255.255.0/24").unwrap();
        let ranges: Vec<String> = set
            .ranges(Family::V4)
            .iter()
            .map(|(a, b)| format!("{a}-{b}"))
            .collect();
        assert_eq!(
            ranges,
            [
                "10.0.0.0-10.0.1.255",
                "10.0.3.0-10.0.3.255",
                "255.255.255.0-255.255.255.255"
            ]
        );
    }

    #[test]
    fn an_entry_that_is_no_subnet_is_named() {
        for entry in [
            "10.0.0.0/33",
            "10.0.0.0",
            "10.0.0/8",
            "fd00::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "x/8",
        ] {
            let error = CidrSet::from_annotation(entry).unwrap_err();
            assert!(error.to_string().contains(entry), "{entry:?}: {error}");
        }
    }
}
