//! Rulesets as values: built from a redirect and compared. `netns/packets.rs` shows their effect on packets.

use evergreen_cni::{
    net::{
        cidr::{CidrSet, Family},
        ports::{Port, PortSet},
    },
    policy::intent::Redirect,
    rules::ruleset::Ruleset,
};

/// The redirect of Linkerd's chart values.
pub(crate) fn usual() -> Redirect {
    Redirect {
        families: vec![Family::V4, Family::V6],
        inbound_port: port(4143),
        outbound_port: port(4140),
        proxy_uid: Some(2102),
        proxy_gid: None,
        inbound_only: PortSet::default(),
        skip_inbound: ports("4190-4191"),
        skip_outbound: PortSet::default(),
        skip_sources: CidrSet::default(),
    }
}

/// A redirect that uses every field.
pub(crate) fn full() -> Redirect {
    Redirect {
        proxy_gid: Some(2103),
        inbound_only: ports("80,8080-8090,65000-65535"),
        skip_inbound: ports("1,22,4190-4191,6000,7000,65535"),
        skip_outbound: ports("1-5,443,3306,5432,6379,11211,65535"),
        skip_sources: subnets(
            "10.0.0.0/8,172.16.0.0/24,172.16.1.0/24,192.168.0.7/32,fd00::/8,2001:db8::/33,fe80::7/128",
        ),
        ..usual()
    }
}

/// A redirect whose sets exceed one netlink attribute, and whose batch exceeds the default socket buffer.
pub(crate) fn huge() -> Redirect {
    let odd = |count: usize| (0..count).map(|i| port(2 * i as u16 + 1)).collect();
    let sources: Vec<String> = (0..5000)
        .flat_map(|i| {
            [
                format!("10.{}.{}.0/24", i / 128, i % 128 * 2),
                format!("fd00:0:{:x}::/64", i * 2),
            ]
        })
        .collect();
    Redirect {
        skip_inbound: odd(10_000),
        skip_outbound: odd(32_768),
        skip_sources: subnets(&sources.join(",")),
        ..usual()
    }
}

pub(crate) fn port(number: u16) -> Port {
    Port::new(number).expect("a port")
}

pub(crate) fn ports(list: &str) -> PortSet {
    PortSet::from_annotation(list).expect("a list of ports")
}

pub(crate) fn subnets(list: &str) -> CidrSet {
    CidrSet::from_annotation(list).expect("a list of subnets")
}

#[test]
fn ruleset_matches_itself_and_is_complete() {
    for redirect in [usual(), full(), huge()] {
        let ruleset = Ruleset::build(&redirect);
        ruleset.matches(&ruleset).unwrap();
        ruleset.matches_comments().unwrap();
    }
}

#[test]
fn first_difference_is_named() {
    for (what, change, against_wanted, by_itself) in DIFFERENCES {
        let wanted = Ruleset::build(&full());
        let mut found = wanted.clone();
        change(&mut found);
        let error = found.matches(&wanted).unwrap_err().to_string();
        assert!(error.contains(against_wanted), "{what}: {error}");
        let error = found.matches_comments().unwrap_err().to_string();
        assert!(error.contains(by_itself), "{what}: {error}");
    }
}

/// The change, how it is made, the message when the wanted rules are known, and the message when they are not.
type Case = (&'static str, fn(&mut Ruleset), &'static str, &'static str);

const DIFFERENCES: [Case; 8] = [
    (
        "no table",
        |r| r.tables.clear(),
        "table ip evergreen_cni is missing",
        "there is no table evergreen_cni",
    ),
    (
        "one table",
        |r| drop(r.tables.pop()),
        "table ip6 evergreen_cni is missing",
        "have changed since ADD wrote them",
    ),
    (
        "no set",
        |r| drop(r.tables[0].sets.remove(1)),
        "set skip_sources of table ip evergreen_cni is missing",
        "have changed since ADD wrote them",
    ),
    (
        "other elements",
        |r| r.tables[1].sets[0] = Ruleset::build(&usual()).tables[1].sets[0].clone(),
        "set skip_inbound_ports of table ip6 evergreen_cni holds 4190-4191; wanted 1, 22,",
        "have changed since ADD wrote them",
    ),
    (
        "no chain",
        |r| drop(r.tables[0].chains.pop()),
        "chain output of table ip evergreen_cni is missing",
        "chain output of table ip evergreen_cni is missing",
    ),
    (
        "no rule",
        |r| drop(r.tables[0].chains[1].rules.remove(2)),
        "rule 3 of chain output in table ip evergreen_cni is tcp dport @skip_outbound_ports return",
        "rule 1/4 of chain output in table ip evergreen_cni has the comment \"1/5",
    ),
    (
        "no last rule",
        |r| drop(r.tables[0].chains[1].rules.pop()),
        "rule 5 of chain output in table ip evergreen_cni is missing: meta l4proto tcp redirect to :4140",
        "rule 1/4 of chain output in table ip evergreen_cni has the comment \"1/5",
    ),
    (
        "a rule more",
        |r| {
            let again = r.tables[0].chains[0].rules[2].clone();
            r.tables[0].chains[0].rules.push(again);
        },
        "rule 4 of chain prerouting in table ip evergreen_cni should not be there",
        "rule 1/4 of chain prerouting in table ip evergreen_cni has the comment \"1/3",
    ),
];

#[test]
fn comment_wording_is_not_a_difference() {
    let wanted = Ruleset::build(&full());
    let mut found = wanted.clone();
    found.tables[0].chains[0].rules[0].comment = "from another version".into();
    found.matches(&wanted).unwrap();
}

#[test]
fn subnet_enters_only_its_own_family() {
    let ruleset = Ruleset::build(&Redirect {
        skip_sources: subnets("10.0.0.0/8"),
        ..usual()
    });
    let text: Vec<String> = ruleset
        .tables
        .iter()
        .map(|table| {
            Ruleset {
                tables: vec![table.clone()],
            }
            .to_string()
        })
        .collect();
    assert!(text[0].contains("ip saddr @skip_sources return"), "{}", text[0]);
    assert!(!text[1].contains("saddr"), "{}", text[1]);
}
