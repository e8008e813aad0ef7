//! A ruleset in the syntax of `nft`, and its checksum.

use std::{
    fmt::{self, Write as _},
    net::IpAddr,
};

use super::{Chain, Elements, Hook, Match, Rule, Ruleset, Set, TABLE, Table, Verdict};
use crate::net::cidr::{Family, subnets};

impl fmt::Display for Ruleset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tables.iter().try_for_each(|table| table.write(f, true))
    }
}

impl Ruleset {
    /// Returns a short checksum of the text without comments, over all tables so that a missing one shows.
    ///
    /// FNV-1a, folded to 32 bits. It detects changes, not forgery: a forger could write the checksum as well. It must not
    /// change between versions, because CHECK compares it with the comments of rules an older version wrote.
    pub(super) fn sum(&self) -> String {
        let mut sum = Sum(0xcbf2_9ce4_8422_2325);
        for table in &self.tables {
            // Writing to a checksum cannot fail.
            let _ = table.write(&mut sum, false);
        }
        format!("{:08x}", (sum.0 >> 32) as u32 ^ sum.0 as u32)
    }
}

struct Sum(u64);

impl fmt::Write for Sum {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

impl Table {
    fn write(&self, out: &mut dyn fmt::Write, comments: bool) -> fmt::Result {
        writeln!(out, "table {} {TABLE} {{", keyword(self.family))?;
        for set in &self.sets {
            set.write(out, self.family)?;
        }
        for (i, chain) in self.chains.iter().enumerate() {
            if i > 0 {
                writeln!(out)?;
            }
            chain.write(out, self.family, comments)?;
        }
        writeln!(out, "}}")
    }
}

/// Returns the family's keyword for tables and packet headers.
pub(super) fn keyword(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

impl Set {
    fn write(&self, out: &mut dyn fmt::Write, family: Family) -> fmt::Result {
        // The number of elements after which `nft` breaks the line.
        let (kind, in_a_line) = match (&self.elements, family) {
            (Elements::Ports(_), _) => ("inet_service", 5),
            (Elements::Addresses(_), Family::V4) => ("ipv4_addr", 2),
            (Elements::Addresses(_), Family::V6) => ("ipv6_addr", 1),
        };
        writeln!(out, "\tset {} {{\n\t\ttype {kind}\n\t\tflags interval", self.name)?;
        write!(out, "\t\telements = {{ ")?;
        self.elements.write(out, |i| match i {
            0 => "",
            _ if i % in_a_line == 0 => ",\n\t\t\t     ",
            _ => ", ",
        })?;
        writeln!(out, " }}\n\t}}\n")
    }
}

impl Elements {
    /// Writes each range after the separator for its index.
    fn write(&self, out: &mut dyn fmt::Write, separator: impl Fn(usize) -> &'static str) -> fmt::Result {
        match self {
            Self::Ports(ports) => {
                for (i, range) in ports.ranges().iter().enumerate() {
                    write!(out, "{}{range}", separator(i))?;
                }
            }
            Self::Addresses(ranges) => {
                for (i, &(first, last)) in ranges.iter().enumerate() {
                    out.write_str(separator(i))?;
                    write_addresses(out, first, last)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the first elements, for messages.
    pub(super) fn excerpt(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = self.write(&mut text, |i| if i == 0 { "" } else { ", " });
        if text.len() > 200 {
            // Ports and addresses are ASCII, so any byte is a boundary.
            text.truncate(200);
            text.push_str("...");
        }
        text
    }
}

/// Writes a single address, a subnet where the range is one, or the range.
fn write_addresses(out: &mut dyn fmt::Write, first: IpAddr, last: IpAddr) -> fmt::Result {
    let mut subnets = subnets(first, last);
    match (subnets.next(), subnets.next()) {
        (Some(subnet), None) if first != last => write!(out, "{subnet}"),
        (Some(_), None) => write!(out, "{first}"),
        _ => write!(out, "{first}-{last}"),
    }
}

impl Chain {
    fn write(&self, out: &mut dyn fmt::Write, family: Family, comments: bool) -> fmt::Result {
        let hook = self.hook;
        writeln!(out, "\tchain {} {{", hook.name())?;
        let priority: &dyn fmt::Display = match hook {
            Hook::Prerouting => &"dstnat",
            Hook::Output => &hook.priority(),
        };
        writeln!(
            out,
            "\t\ttype nat hook {} priority {priority}; policy accept;",
            hook.name()
        )?;
        for rule in &self.rules {
            out.write_str("\t\t")?;
            rule.write(out, family)?;
            if comments {
                write!(out, " comment \"{}\"", rule.comment)?;
            }
            out.write_char('\n')?;
        }
        writeln!(out, "\t}}")
    }
}

impl Rule {
    fn write(&self, out: &mut dyn fmt::Write, family: Family) -> fmt::Result {
        match self.when {
            Match::User(uid) => write!(out, "meta skuid {uid} "),
            Match::Group(gid) => write!(out, "meta skgid {gid} "),
            Match::Loopback => write!(out, "oifname \"lo\" "),
            Match::PortIn(set) => write!(out, "tcp dport @{set} "),
            Match::SourceIn(set) => write!(out, "{} saddr @{set} ", keyword(family)),
            Match::Tcp => write!(out, "meta l4proto tcp "),
        }?;
        match self.then {
            Verdict::Return => out.write_str("return"),
            Verdict::Redirect(port) => write!(out, "redirect to :{port}"),
        }
    }

    /// Returns the rule with its comment, on one line.
    pub(super) fn text(&self, family: Family) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = self.write(&mut text, family);
        let _ = write!(text, " comment {:?}", self.comment);
        text
    }
}
