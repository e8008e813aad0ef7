//! The proxy's ports and identity in the network configuration, for pods that do not state them.

use super::{field::Fields, invalid::InvalidNetConf};
use crate::net::ports::Port;

/// Ports and identity of the proxy; none where the configuration does not state them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyDefaults {
    /// `incoming-proxy-port`
    pub inbound_port: Option<Port>,
    /// `outgoing-proxy-port`
    pub outbound_port: Option<Port>,
    /// `proxy-uid`; 0, allowed only together with a gid, means that no user bypasses the proxy
    pub uid: Option<u32>,
    /// `proxy-gid`
    pub gid: Option<u32>,
}

// === impl ProxyDefaults ===

impl ProxyDefaults {
    pub(super) fn check(linkerd: &Fields<'_>) -> Result<Self, InvalidNetConf> {
        let port = |key| linkerd.checked(key, |n: Option<i64>| n.map(Port::from_number).transpose());
        let gid = linkerd.checked("proxy-gid", |n: Option<i64>| n.map(user_or_group).transpose())?;
        let uid = linkerd.checked("proxy-uid", |n: Option<i64>| n.map(user_or_group).transpose())?;
        let gid = gid.filter(|gid| *gid != 0);
        if uid == Some(0) && gid.is_none() {
            return Err(InvalidNetConf::value(
                "linkerd.proxy-uid",
                "is 0 and proxy-gid is not set: no connection of root would be redirected",
            ));
        }
        Ok(Self {
            inbound_port: port("incoming-proxy-port")?,
            outbound_port: port("outgoing-proxy-port")?,
            uid,
            gid,
        })
    }
}

/// Checks a user or group ID; the kernel uses 2^32-1 for "no user".
pub fn user_or_group(number: i64) -> Result<u32, String> {
    u32::try_from(number)
        .ok()
        .filter(|n| *n != u32::MAX)
        .ok_or_else(|| format!("is {number}; write a user or group ID from 0 to 4294967294"))
}
