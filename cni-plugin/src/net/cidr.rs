//! Subnets as people write them, and as the ranges an nft interval set needs.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};

/// An address family of the network layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

/// Subnets of both families, ascending; none lies inside another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CidrSet(Vec<IpNet>);

/// An entry that is not a subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCidr(String);

// === impl Family ===

impl Family {
    /// Both families, IPv4 first.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];
}

impl From<IpAddr> for Family {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

// === impl CidrSet ===

impl CidrSet {
    /// Parses the entries of a list. Blank entries, which templates produce, are ignored.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidCidr> {
        let entries = entries.into_iter().map(str::trim).filter(|e| !e.is_empty());
        let subnet = |entry: &str| parse(entry).ok_or_else(|| InvalidCidr(entry.chars().take(60).collect()));
        let mut subnets: Vec<IpNet> = entries.map(subnet).collect::<Result<_, _>>()?;
        // By first address, the wider one first: a subnet inside another follows it.
        subnets.sort_unstable();
        subnets.dedup_by(|inner, wider| wider.contains(&*inner));
        Ok(Self(subnets))
    }

    /// Parses a comma-separated list, as in an annotation.
    pub fn from_annotation(list: &str) -> Result<Self, InvalidCidr> {
        Self::from_entries(list.split(','))
    }

    /// Returns the addresses of one family as ascending inclusive ranges with a gap between any two: adjacent subnets such
    /// as `10.0.0.0/24` and `10.0.1.0/24` become one range.
    pub fn ranges(&self, family: Family) -> Vec<(IpAddr, IpAddr)> {
        let mut ranges: Vec<(IpAddr, IpAddr)> = Vec::new();
        for subnet in self.0.iter().filter(|s| Family::from(s.addr()) == family) {
            match ranges.last_mut() {
                Some((_, last)) if next(*last) == Some(subnet.network()) => *last = subnet.broadcast(),
                _ => ranges.push((subnet.network(), subnet.broadcast())),
            }
        }
        ranges
    }

    /// Returns true when the set holds no subnet of either family.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for CidrSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, subnet) in self.0.iter().enumerate() {
            write!(f, "{}{subnet}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Parses an address and a prefix length. Host bits are cleared, as iptables does; an IPv4-mapped subnet becomes IPv4.
///
/// Parsed by the standard library, because `IpNet` accepts other spellings of the two.
fn parse(entry: &str) -> Option<IpNet> {
    let (address, prefix) = entry.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    if !prefix.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let prefix: u8 = prefix.parse().ok()?;
    let subnet = match address {
        // No packet of the IPv6 table ever carries a mapped source address.
        IpAddr::V6(v6) if (96..=128).contains(&prefix) && v6.to_ipv4_mapped().is_some() => {
            IpNet::new(v6.to_ipv4_mapped()?.into(), prefix - 96)
        }
        _ => IpNet::new(address, prefix),
    };
    Some(subnet.ok()?.trunc())
}

/// Returns the address after this one, or none after the last.
pub fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(a) => a.to_bits().checked_add(1).map(|b| Ipv4Addr::from_bits(b).into()),
        IpAddr::V6(a) => a.to_bits().checked_add(1).map(|b| Ipv6Addr::from_bits(b).into()),
    }
}

/// Splits an inclusive range into the fewest subnets; none for addresses of different families.
pub fn subnets(first: IpAddr, last: IpAddr) -> impl Iterator<Item = IpNet> {
    let subnets = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => Some(IpSubnets::V4(Ipv4Subnets::new(first, last, 0))),
        (IpAddr::V6(first), IpAddr::V6(last)) => Some(IpSubnets::V6(Ipv6Subnets::new(first, last, 0))),
        _ => None,
    };
    subnets.into_iter().flatten()
}

// === impl InvalidCidr ===

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
    fn list_is_sorted_truncated_and_without_inner_subnets() {
        for (written, kept) in [
            ("", ""),
            ("10.0.0.0/8, 172.16.0.0/12", "10.0.0.0/8, 172.16.0.0/12"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.0.0.0/8,10.1.0.0/16,10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0,1.2.3.4/32", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("fd00::1/8,10.0.0.0/24", "10.0.0.0/24, fd00::/8"),
            ("10.0.0.0/008", "10.0.0.0/8"),
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
    fn adjacent_subnets_become_one_range() {
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
    fn invalid_entry_is_named() {
        for entry in [
            "10.0.0.0/33",
            "10.0.0.0",
            "10.0.0/8",
            "fd00::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/256",
            "010.0.0.0/8",
            "fd00::1%1/8",
            "x/8",
        ] {
            let error = CidrSet::from_annotation(entry).unwrap_err();
            assert!(error.to_string().contains(entry), "{entry:?}: {error}");
        }
    }

    #[test]
    fn range_is_split_into_the_fewest_subnets() {
        for (first, last, expected) in [
            ("10.0.0.0", "10.0.0.0", "10.0.0.0/32"),
            ("10.0.0.0", "10.0.1.255", "10.0.0.0/23"),
            ("10.0.0.0", "10.0.2.255", "10.0.0.0/23 10.0.2.0/24"),
            ("0.0.0.0", "255.255.255.255", "0.0.0.0/0"),
            ("255.255.255.254", "255.255.255.255", "255.255.255.254/31"),
            (
                "0.0.0.1",
                "0.0.0.6",
                "0.0.0.1/32 0.0.0.2/31 0.0.0.4/31 0.0.0.6/32",
            ),
            ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
            ("fd00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fd00::/8"),
        ] {
            let found = subnets(first.parse().unwrap(), last.parse().unwrap());
            let found: Vec<String> = found.map(|subnet| subnet.to_string()).collect();
            assert_eq!(found.join(" "), expected, "{first}-{last}");
        }
    }
}
