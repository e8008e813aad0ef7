//! The rules for a redirect, as the kernel should hold them. Pure: no socket, no process.
//!
//! One table per family, `ip` and `ip6`, instead of one `inet` table for both: nat in `inet` needs Linux 5.2, a kernel
//! without IPv6 still supports the `ip` table, and an unwanted family is simply an absent table.
//!
//! The text of a [`Ruleset`] is what `nft -f` reads and `nft list table` shows. Each rule's comment holds its position, a
//! checksum of the whole ruleset and its purpose, so that the kernel's copy can be checked later without knowing the
//! wanted rules (see [`Ruleset::matches_comments`]).

mod build;
mod compare;
mod text;

use std::{fmt, net::IpAddr};

pub use self::compare::Difference;
use crate::net::{
    cidr::Family,
    ports::{Port, PortSet},
};

/// The name of the plugin's table in either family. The plugin owns everything in it and touches nothing outside.
pub const TABLE: &str = "evergreen_cni";

/// All tables of the plugin in one network namespace, IPv4 first. Without tables, the pod is not redirected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// At most one of each family.
    pub tables: Vec<Table>,
}

/// The plugin's table of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The family of its packets.
    pub family: Family,
    /// The sets its rules refer to, none of them empty, in the order of [`SetName`].
    pub sets: Vec<Set>,
    /// Inbound, then outbound.
    pub chains: Vec<Chain>,
}

/// A named set of intervals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Its name in the table, which determines the type of its elements.
    pub name: SetName,
    /// Its elements.
    pub elements: Elements,
}

/// The sets that rules use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetName {
    /// Inbound destination ports that bypass the proxy.
    SkipInboundPorts,
    /// Source addresses whose inbound connections bypass the proxy.
    SkipSources,
    /// The only inbound destination ports to redirect.
    RedirectPorts,
    /// Outbound destination ports that bypass the proxy.
    SkipOutboundPorts,
}

/// The elements of a set: inclusive ranges, ascending, with a gap between any two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elements {
    /// TCP ports.
    Ports(PortSet),
    /// Addresses of the table's family, as first and last of each range.
    Addresses(Vec<(IpAddr, IpAddr)>),
}

/// A nat chain; it sees the first packet of each connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Where it is attached.
    pub hook: Hook,
    /// The first matching rule decides.
    pub rules: Vec<Rule>,
}

/// The netfilter hook of a chain, which also names the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Inbound packets.
    Prerouting,
    /// Packets from the pod's own processes.
    Output,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The connections it matches.
    pub when: Match,
    /// What happens to them.
    pub then: Verdict,
    /// `POSITION/COUNT SUM PURPOSE`, for people and for CHECK. The purpose is text only; the rest must stay readable
    /// between versions.
    pub comment: String,
}

/// The connections a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// Sockets of this user.
    User(u32),
    /// Sockets of this group.
    Group(u32),
    /// Packets out of `lo`, also those to the pod's own address.
    Loopback,
    /// TCP to a port in the set.
    PortIn(SetName),
    /// A source address in the set.
    SourceIn(SetName),
    /// TCP.
    Tcp,
}

/// What happens to a matching connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It bypasses the proxy.
    Return,
    /// It is redirected to this port of the pod.
    Redirect(Port),
}

/// Returns family and name of the plugin's table, as in `nft list table`.
pub(crate) fn title(family: Family) -> String {
    format!("{} {TABLE}", text::keyword(family))
}

// === impl Ruleset ===

impl Ruleset {
    /// The mark in nf_tables that the rules are in iptables: a table without chains.
    pub(crate) fn mark() -> Self {
        let empty = Table {
            family: Family::V4,
            sets: Vec::new(),
            chains: Vec::new(),
        };
        Self { tables: vec![empty] }
    }

    /// Returns true for the mark alone.
    pub(crate) fn is_mark(&self) -> bool {
        *self == Self::mark()
    }
}

// === impl SetName ===

impl SetName {
    /// All of them, in their order within a table.
    pub const ALL: [Self; 4] = [
        Self::SkipInboundPorts,
        Self::SkipSources,
        Self::RedirectPorts,
        Self::SkipOutboundPorts,
    ];

    /// Returns the set with this name in the kernel.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }

    /// Returns the name in the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SkipInboundPorts => "skip_inbound_ports",
            Self::SkipSources => "skip_sources",
            Self::RedirectPorts => "redirect_ports",
            Self::SkipOutboundPorts => "skip_outbound_ports",
        }
    }
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Elements ===

impl Elements {
    /// Returns true when the set would match nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Ports(ports) => ports.is_empty(),
            Self::Addresses(ranges) => ranges.is_empty(),
        }
    }
}

// === impl Hook ===

impl Hook {
    /// Returns the name of the hook in `nft`, and of the chain.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Output => "output",
        }
    }

    /// Returns -100, which `nft` calls `dstnat` in prerouting: the priority of destination nat (`NF_IP_PRI_NAT_DST` in
    /// linux/netfilter_ipv4.h).
    pub const fn priority(self) -> i32 {
        -100
    }
}

// === impl Rule ===

impl Rule {
    /// Returns the first word of the comment, `POSITION/COUNT`.
    pub fn position(&self) -> &str {
        self.comment.split(' ').next().unwrap_or_default()
    }

    /// Returns the second word of the comment: the checksum of all tables when they were written.
    pub fn sum(&self) -> &str {
        self.comment.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the rest of the comment: the purpose of the rule.
    pub fn purpose(&self) -> &str {
        self.comment.splitn(3, ' ').nth(2).unwrap_or_default()
    }
}
