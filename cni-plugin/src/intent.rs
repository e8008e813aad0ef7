//! What should happen to the pod's traffic. Pure: knows no socket, no file, no kernel.

use crate::{cidr::CidrSet, cidr::Family, ports::Port, ports::PortSet};

/// What the call comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is to be programmed; the reason is for the log.
    Skip(&'static str),
    /// The pod's TCP goes through its proxy.
    Redirect(Redirect),
}

/// All that the rules are made of. Every number has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Families to program: IPv4, IPv6 or both, in this order, never none.
    pub families: Vec<Family>,
    /// Where the proxy accepts what comes in.
    pub inbound_port: Port,
    /// Where the proxy accepts what goes out.
    pub outbound_port: Port,
    /// The user whose own connections are left alone. None only when a group stands in for it.
    pub proxy_uid: Option<u32>,
    /// The group whose own connections are left alone.
    pub proxy_gid: Option<u32>,
    /// Destination ports redirected on the way in; empty means all.
    pub inbound_only: PortSet,
    /// Destination ports left alone on the way in.
    pub skip_inbound: PortSet,
    /// Destination ports left alone on the way out.
    pub skip_outbound: PortSet,
    /// Sources left alone on the way in.
    pub skip_sources: CidrSet,
}
