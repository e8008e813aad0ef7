//! The configurations of the packet matrix.

use evergreen_cni::{net::cidr::Family, policy::intent::Redirect};

use crate::rules::ruleset::{port, ports, subnets};

/// A redirect with its lists as text, which the model parses independently.
#[derive(Debug, Clone, Copy)]
pub(super) struct Configuration {
    pub(super) name: &'static str,
    pub(super) families: &'static str,
    pub(super) inbound_port: u16,
    pub(super) outbound_port: u16,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) inbound_only: &'static str,
    pub(super) skip_inbound: &'static str,
    pub(super) skip_outbound: &'static str,
    pub(super) skip_sources: &'static str,
}

/// The values of Linkerd's chart, for both families.
const USUAL: Configuration = Configuration {
    name: "the chart's values",
    families: "46",
    inbound_port: 4143,
    outbound_port: 4140,
    uid: Some(2102),
    gid: None,
    inbound_only: "",
    skip_inbound: "4190,4191",
    skip_outbound: "",
    skip_sources: "",
};

/// As many ports as one iptables `multiport` match holds, and one more.
const FIFTEEN: &str = "11,13,15,17,19,21,23,25,27,29,31,33,35,37,39";
const SIXTEEN: &str = "11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41";
const RANGES: &str = "100-110,200-210,300-310,400-410,500-510,600-610,700-710,800-810,900-910";

pub(super) const CONFIGURATIONS: [Configuration; 41] = [
    USUAL,
    Configuration {
        name: "IPv4 only",
        families: "4",
        ..USUAL
    },
    Configuration {
        name: "IPv6 only",
        families: "6",
        ..USUAL
    },
    Configuration {
        name: "other proxy ports",
        inbound_port: 1,
        outbound_port: 65535,
        ..USUAL
    },
    Configuration {
        name: "one port for both ways",
        inbound_port: 15000,
        outbound_port: 15000,
        ..USUAL
    },
    Configuration {
        name: "another user",
        uid: Some(1337),
        ..USUAL
    },
    Configuration {
        name: "the largest user",
        uid: Some(4_294_967_294),
        ..USUAL
    },
    Configuration {
        name: "user and group",
        gid: Some(2103),
        ..USUAL
    },
    Configuration {
        name: "group only",
        uid: None,
        gid: Some(2102),
        ..USUAL
    },
    Configuration {
        name: "group of root",
        uid: None,
        gid: Some(0),
        ..USUAL
    },
    Configuration {
        name: "root as the proxy, with a group",
        uid: Some(0),
        gid: Some(7),
        ..USUAL
    },
    Configuration {
        name: "nothing to skip",
        skip_inbound: "",
        ..USUAL
    },
    Configuration {
        name: "one port out",
        skip_outbound: "443",
        ..USUAL
    },
    Configuration {
        name: "a range out",
        skip_outbound: "1000-2000",
        ..USUAL
    },
    Configuration {
        name: "lowest port out",
        skip_outbound: "1",
        ..USUAL
    },
    Configuration {
        name: "highest port out",
        skip_outbound: "65535",
        ..USUAL
    },
    Configuration {
        name: "all ports out",
        skip_outbound: "1-65535",
        ..USUAL
    },
    Configuration {
        name: "all ports in",
        skip_inbound: "1-65535",
        ..USUAL
    },
    Configuration {
        name: "all but one port out",
        skip_outbound: "1-8079,8081-65535",
        ..USUAL
    },
    Configuration {
        name: "neighbours and overlaps",
        skip_outbound: "10-20,21,15-30,32,34-40,41-50",
        ..USUAL
    },
    Configuration {
        name: "the proxy's own ports",
        skip_inbound: "4143",
        skip_outbound: "4140",
        ..USUAL
    },
    Configuration {
        name: "fifteen ports",
        skip_inbound: FIFTEEN,
        skip_outbound: FIFTEEN,
        ..USUAL
    },
    Configuration {
        name: "sixteen ports",
        skip_inbound: SIXTEEN,
        skip_outbound: SIXTEEN,
        ..USUAL
    },
    Configuration {
        name: "nine ranges",
        skip_inbound: RANGES,
        skip_outbound: RANGES,
        ..USUAL
    },
    Configuration {
        name: "listed ports in",
        inbound_only: "80,8080",
        ..USUAL
    },
    Configuration {
        name: "a listed range in",
        inbound_only: "8000-8100",
        ..USUAL
    },
    Configuration {
        name: "listed and skipped",
        inbound_only: "8000-8100",
        skip_inbound: "8080,8101",
        ..USUAL
    },
    Configuration {
        name: "sixteen listed ports",
        inbound_only: SIXTEEN,
        ..USUAL
    },
    Configuration {
        name: "a subnet",
        skip_sources: "10.0.0.0/8",
        ..USUAL
    },
    Configuration {
        name: "one address",
        skip_sources: "203.0.113.9/32",
        ..USUAL
    },
    Configuration {
        name: "all of IPv4",
        skip_sources: "0.0.0.0/0",
        ..USUAL
    },
    Configuration {
        name: "all of IPv6",
        skip_sources: "::/0",
        ..USUAL
    },
    Configuration {
        name: "an IPv6 subnet",
        skip_sources: "2001:db8:8000::/33",
        ..USUAL
    },
    Configuration {
        name: "one IPv6 address",
        skip_sources: "2001:db8::9/128",
        ..USUAL
    },
    Configuration {
        name: "both families",
        skip_sources: "172.16.0.0/12,fd00::/16",
        ..USUAL
    },
    Configuration {
        name: "the peer itself",
        skip_sources: "192.0.2.0/31,fd77::/127",
        ..USUAL
    },
    Configuration {
        name: "host bits",
        skip_sources: "10.1.2.3/20,2001:db8::1:2/112",
        ..USUAL
    },
    Configuration {
        name: "neighbouring subnets",
        skip_sources: "10.0.0.0/24,10.0.1.0/24,10.0.2.0/25,10.0.4.0/22,2001:db8::/48,2001:db8:1::/48",
        ..USUAL
    },
    Configuration {
        name: "one subnet in another",
        skip_sources: "10.0.0.0/8,10.1.0.0/16,10.1.2.3/32,2001:db8::/32,2001:db8:5::/48",
        ..USUAL
    },
    Configuration {
        name: "subnets and ports",
        skip_inbound: "22,8000-8079",
        skip_sources: "198.51.100.0/25,2001:db8:f::/64",
        ..USUAL
    },
    Configuration {
        name: "everything",
        inbound_port: 24143,
        outbound_port: 24140,
        uid: Some(5000),
        gid: Some(5001),
        inbound_only: "80,443,8000-8100,65535",
        skip_inbound: "8090-8100,9090,4191",
        skip_outbound: "25,443,3306,5432,6379,9300,11211,30000-32767",
        skip_sources: "10.0.0.0/8,203.0.113.128/25,fd00::/17,2001:db8::/64",
        ..USUAL
    },
];

impl Configuration {
    /// The redirect the plugin builds from the same text.
    pub(super) fn redirect(&self) -> Redirect {
        let families = self
            .families
            .chars()
            .map(|c| if c == '4' { Family::V4 } else { Family::V6 });
        Redirect {
            families: families.collect(),
            inbound_port: port(self.inbound_port),
            outbound_port: port(self.outbound_port),
            proxy_uid: self.uid,
            proxy_gid: self.gid,
            inbound_only: ports(self.inbound_only),
            skip_inbound: ports(self.skip_inbound),
            skip_outbound: ports(self.skip_outbound),
            skip_sources: subnets(self.skip_sources),
        }
    }
}
