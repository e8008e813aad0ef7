//! What the configuration says of every pod's proxy, for pods that do not say it themselves.

use super::{Error, field::Fields};
use crate::policy::ports::Port;

/// Ports and identities of the proxy from the netconf, each none when absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyDefaults {
    /// `incoming-proxy-port`
    pub inbound_port: Option<Port>,
    /// `outgoing-proxy-port`
    pub outbound_port: Option<Port>,
    /// `proxy-uid`; 0, only together with a gid, means no user's connections are left alone
    pub uid: Option<u32>,
    /// `proxy-gid`
    pub gid: Option<u32>,
}

// === impl ProxyDefaults ===

impl ProxyDefaults {
    pub(super) fn check(linkerd: &Fields<'_>) -> Result<Self, Error> {
        let port = |key| linkerd.checked(key, |n: Option<i64>| n.map(Port::from_number).transpose());
        let gid = linkerd.checked("proxy-gid", |n: Option<i64>| n.map(user_or_group).transpose())?;
        let uid = linkerd.checked("proxy-uid", |n: Option<i64>| n.map(user_or_group).transpose())?;
        let gid = gid.filter(|gid| *gid != 0);
        if uid == Some(0) && gid.is_none() {
            let why = "is 0 and no proxy-gid is given: root's own connections would never be redirected";
            return Err(Error::Value {
                key: "linkerd.proxy-uid".into(),
                why: why.into(),
            });
        }
        Ok(Self {
            inbound_port: port("incoming-proxy-port")?,
            outbound_port: port("outgoing-proxy-port")?,
            uid,
            gid,
        })
    }
}

/// A user or group as the kernel numbers them; 2^32-1 is its "no such user".
pub fn user_or_group(number: i64) -> Result<u32, String> {
    u32::try_from(number)
        .ok()
        .filter(|n| *n != u32::MAX)
        .ok_or_else(|| format!("is {number}; a user or group is a number from 0 to 4294967294"))
}
