//! The rules a redirect comes to, as the kernel should hold them. Pure: knows no socket and no process.
//!
//! One table per family, `ip` and `ip6`, and not one `inet` table for both: nat in `inet` needs Linux 5.2, a kernel
//! without IPv6 can still do the `ip` table, and a family that is not wanted is simply a table that is not there.
//!
//! The text of a [`Ruleset`] is what `nft -f` reads and what `nft list table` shows. Each rule's comment says what
//! the rule is for, which one it is, and the sum of the whole, so that the kernel's own copy tells later what was
//! meant to be there (see [`Ruleset::is_whole`]).

mod build;
mod compare;
mod text;

use std::{fmt, net::IpAddr};

pub use self::compare::Difference;
use crate::net::{
    cidr::Family,
    ports::{Port, PortSet},
};

/// The name of our table in either family. Whatever is in it is ours, whatever is outside is not.
pub const TABLE: &str = "evergreen_cni";

/// All our tables in one network namespace, IPv4 first. No table: the pod is not redirected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// At most one of each family.
    pub tables: Vec<Table>,
}

/// Our table of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The family of the packets that pass it.
    pub family: Family,
    /// The sets its rules look into, none of them empty, in the order of [`SetName`].
    pub sets: Vec<Set>,
    /// What comes in, then what goes out.
    pub chains: Vec<Chain>,
}

/// A set of intervals with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Its name in the table; says also what kind of elements it has.
    pub name: SetName,
    /// What is in it.
    pub elements: Elements,
}

/// The sets we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetName {
    /// Destination ports left alone on the way in.
    SkipInboundPorts,
    /// Source addresses left alone on the way in.
    SkipSources,
    /// The only destination ports redirected on the way in.
    RedirectPorts,
    /// Destination ports left alone on the way out.
    SkipOutboundPorts,
}

/// What a set holds: inclusive ranges, ascending, with a gap between any two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elements {
    /// TCP ports.
    Ports(PortSet),
    /// Addresses of the table's family, as first and last of each range.
    Addresses(Vec<(IpAddr, IpAddr)>),
}

/// A nat chain; the kernel shows it the first packet of each connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Where it stands.
    pub hook: Hook,
    /// The first rule that matches decides.
    pub rules: Vec<Rule>,
}

/// Where in a packet's way a chain stands; also gives the chain its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// What comes into the pod.
    Prerouting,
    /// What the pod's own processes send.
    Output,
}

/// One rule: what it matches, what then happens, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it matches.
    pub when: Match,
    /// What then happens.
    pub then: Verdict,
    /// `POSITION/COUNT SUM PURPOSE`, for people and for CHECK.
    pub comment: String,
}

/// What a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// Sockets this user made.
    User(u32),
    /// Sockets this group made.
    Group(u32),
    /// What leaves by `lo`: the pod talking to itself, be it by its own address.
    Loopback,
    /// TCP to a port in the set.
    PortIn(SetName),
    /// A source address in the set.
    SourceIn(SetName),
    /// TCP.
    Tcp,
}

/// What happens to a connection that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is left alone.
    Return,
    /// It goes to this port on this pod.
    Redirect(Port),
}

/// Family and name of our table, as in `nft list table`.
pub(crate) fn title(family: Family) -> String {
    format!("{} {TABLE}", text::keyword(family))
}

// === impl Ruleset ===

impl Ruleset {
    /// What stands in nf_tables where the rules themselves are the fallback's: a table without a chain.
    pub(crate) fn mark() -> Self {
        let empty = Table {
            family: Family::V4,
            sets: Vec::new(),
            chains: Vec::new(),
        };
        Self { tables: vec![empty] }
    }

    /// True for nothing but the mark.
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

    /// The set with this name in the kernel.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }

    /// The name in the kernel.
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
    /// True when the set would match nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Ports(ports) => ports.is_empty(),
            Self::Addresses(ranges) => ranges.is_empty(),
        }
    }
}

// === impl Hook ===

impl Hook {
    /// The hook's name in `nft`, and the chain's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Output => "output",
        }
    }

    /// -100, which `nft` calls `dstnat` in prerouting: where destination addresses are changed
    /// (`NF_IP_PRI_NAT_DST` in linux/netfilter_ipv4.h).
    pub const fn priority(self) -> i32 {
        -100
    }
}

// === impl Rule ===

impl Rule {
    /// The first word of the comment, `POSITION/COUNT`.
    pub fn position(&self) -> &str {
        self.comment.split(' ').next().unwrap_or_default()
    }

    /// The second word of the comment: the sum over all tables, as it was when they were written.
    pub fn sum(&self) -> &str {
        self.comment.split(' ').nth(1).unwrap_or_default()
    }

    /// The rest of the comment: what the rule is for.
    pub fn purpose(&self) -> &str {
        self.comment.splitn(3, ' ').nth(2).unwrap_or_default()
    }
}
