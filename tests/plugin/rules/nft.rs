//! Rulesets written to a real kernel and read back, compared with what `nft` lists.

use evergreen_cni::{
    net::cidr::Family,
    policy::intent::Redirect,
    rules::{
        nft::{self, Applied},
        ruleset::Ruleset,
    },
};
use evergreen_test_support::netns::Namespace;

use crate::netns::redirect::program_as_linkerd_cni;
use crate::rules::ruleset::{full, huge, ports, usual};

pub(crate) fn apply(namespace: &Namespace, ruleset: &Ruleset) -> Applied {
    namespace
        .run(|| nft::apply(ruleset))
        .unwrap_or_else(|e| panic!("{e}\n{}", namespace.nft_list()))
}

fn read(namespace: &Namespace) -> Ruleset {
    namespace
        .run(nft::read)
        .unwrap_or_else(|e| panic!("{e}\n{}", namespace.nft_list()))
}

#[test]
fn kernel_listing_equals_the_printed_ruleset() {
    for redirect in [
        usual(),
        full(),
        Redirect {
            families: vec![Family::V6],
            ..full()
        },
    ] {
        let (namespace, ruleset) = (Namespace::new(), Ruleset::build(&redirect));
        assert_eq!(apply(&namespace, &ruleset), Applied::Created);
        let found = namespace.nft_list();
        assert_eq!(found, ruleset.to_string(), "found:\n{found}\nwanted:\n{ruleset}");
    }
}

#[test]
fn nft_reads_the_printed_ruleset_identically() {
    for redirect in [usual(), full(), huge()] {
        let (ours, theirs, ruleset) = (Namespace::new(), Namespace::new(), Ruleset::build(&redirect));
        apply(&ours, &ruleset);
        theirs.nft(&ruleset.to_string());
        assert!(ours.nft_list() == theirs.nft_list(), "ours:\n{}", ours.nft_list());
        let found = read(&theirs);
        found
            .matches(&ruleset)
            .unwrap_or_else(|e| panic!("what nft made: {e}"));
        found
            .matches_comments()
            .unwrap_or_else(|e| panic!("what nft made: {e}"));
    }
}

#[test]
fn applied_ruleset_is_read_back_equal() {
    for redirect in [usual(), full(), huge()] {
        let (namespace, ruleset) = (Namespace::new(), Ruleset::build(&redirect));
        assert_eq!(read(&namespace), Ruleset::default());
        apply(&namespace, &ruleset);
        let found = read(&namespace);
        assert!(found == ruleset, "found:\n{found}\nwanted:\n{ruleset}");
    }
}

#[test]
fn second_apply_replaces_with_the_same() {
    let (namespace, ruleset) = (Namespace::new(), Ruleset::build(&full()));
    apply(&namespace, &ruleset);
    let before = namespace.nft_list();
    assert_eq!(apply(&namespace, &ruleset), Applied::Replaced);
    assert_eq!(namespace.nft_list(), before);
}

#[test]
fn dropped_family_is_removed() {
    let namespace = Namespace::new();
    apply(&namespace, &Ruleset::build(&full()));
    for family in [Family::V4, Family::V6] {
        let ruleset = Ruleset::build(&Redirect {
            families: vec![family],
            ..usual()
        });
        assert_eq!(apply(&namespace, &ruleset), Applied::Replaced);
        assert_eq!(namespace.nft_list(), ruleset.to_string());
    }
}

#[test]
fn empty_ruleset_has_no_table() {
    let namespace = Namespace::new();
    assert_eq!(apply(&namespace, &Ruleset::default()), Applied::Created);
    apply(&namespace, &Ruleset::build(&full()));
    assert_eq!(apply(&namespace, &Ruleset::default()), Applied::Replaced);
    assert_eq!(namespace.nft_list(), "");
}

#[test]
fn remove_reports_whether_tables_existed() {
    let namespace = Namespace::new();
    assert!(!namespace.run(nft::remove).unwrap());
    apply(&namespace, &Ruleset::build(&full()));
    assert!(namespace.run(nft::remove).unwrap());
    assert_eq!(namespace.nft_list(), "");
    assert!(!namespace.run(nft::remove).unwrap());
}

#[test]
fn foreign_tables_stay_unchanged() {
    let namespace = Namespace::new();
    program_as_linkerd_cni(&namespace);
    namespace.nft("table inet other { set s { type ipv4_addr; elements = { 1.2.3.4 }; }; chain c { ip saddr @s drop; }; }\n");
    let others = namespace.nft_list();
    let ruleset = Ruleset::build(&full());
    for _ in 0..2 {
        apply(&namespace, &ruleset);
        assert_eq!(namespace.nft_list().replace(&ruleset.to_string(), ""), others);
        assert_eq!(read(&namespace), ruleset);
    }
    assert!(namespace.run(nft::remove).unwrap());
    assert_eq!(namespace.nft_list(), others);
}

#[test]
fn failed_batch_changes_nothing_and_names_rule() {
    let mut broken = Ruleset::build(&full());
    // The last rule now refers to a set that does not exist.
    broken.tables[1].sets.pop();
    for before in [None, Some(Ruleset::build(&usual()))] {
        let namespace = Namespace::new();
        if let Some(before) = &before {
            apply(&namespace, before);
        }
        let list = namespace.nft_list();
        let error = namespace.run(|| nft::apply(&broken)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "nf_tables: cannot add rule 4 of chain output in table ip6 evergreen_cni (skip outbound ports): \
             No such file or directory (os error 2)"
        );
        assert!(!error.is_no_nf_tables());
        assert_eq!(namespace.nft_list(), list);
    }
}

#[test]
fn missing_capability_is_named() {
    let namespace = Namespace::new();
    let error = namespace
        .run_as(65534, 65534, || nft::apply(&Ruleset::build(&usual())))
        .unwrap_err();
    assert!(error.to_string().contains("needs CAP_NET_ADMIN"), "{error}");
    assert!(!error.is_no_nf_tables());
    assert_eq!(namespace.nft_list(), "");
}

#[test]
fn foreign_change_is_found_and_named() {
    let wanted = Ruleset::build(&full());
    for (change, difference) in [
        (
            "flush chain ip evergreen_cni output",
            "rule 1 of chain output in table ip evergreen_cni is missing",
        ),
        (
            "flush table ip6 evergreen_cni",
            "rule 1 of chain prerouting in table ip6 evergreen_cni is missing",
        ),
        (
            "delete table ip6 evergreen_cni",
            "table ip6 evergreen_cni is missing",
        ),
        (
            "add rule ip evergreen_cni output tcp dport 1 return",
            "rule 6 of chain output is foreign",
        ),
        (
            "add rule ip evergreen_cni output counter",
            "rule 6 of chain output has a foreign expression counter",
        ),
        (
            "insert rule ip evergreen_cni output meta l4proto udp return",
            "rule 1 of chain output is foreign",
        ),
        ("add chain ip evergreen_cni more", "chain more is foreign"),
        (
            "add set ip evergreen_cni more { type ipv4_addr; }",
            "set more is foreign",
        ),
        (
            "add table ip evergreen_cni { flags dormant; }",
            "it has flags and may be dormant",
        ),
        (
            "add element ip evergreen_cni skip_inbound_ports { 9 }",
            "set skip_inbound_ports of table ip evergreen_cni holds 1, 9, 22, 4190-4191, 6000, 7000, 65535; wanted 1, 22",
        ),
        (
            "delete element ip6 evergreen_cni skip_sources { fe80::7 }",
            "set skip_sources of table ip6 evergreen_cni holds 2001:db8::/33, fd00::/8; wanted 2001:db8::/33, fd00::/8, fe80::7",
        ),
    ] {
        let namespace = Namespace::new();
        apply(&namespace, &wanted);
        namespace.nft(&format!("{change}\n"));
        let (against_wanted, by_itself) = match namespace.run(nft::read) {
            Ok(found) => (
                found.matches(&wanted).unwrap_err().to_string(),
                found.matches_comments().unwrap_err().to_string(),
            ),
            Err(e) => (e.to_string(), e.to_string()),
        };
        assert!(against_wanted.contains(difference), "{change}: {against_wanted}");
        assert!(by_itself.contains("evergreen_cni"), "{change}: {by_itself}");
    }
}

#[test]
fn one_port_and_all_ports_are_sets() {
    for list in ["1", "65535", "1-65535", "1-2,65534-65535"] {
        let ruleset = Ruleset::build(&Redirect {
            skip_outbound: ports(list),
            ..usual()
        });
        let namespace = Namespace::new();
        apply(&namespace, &ruleset);
        assert_eq!(read(&namespace), ruleset, "{list}");
        assert_eq!(namespace.nft_list(), ruleset.to_string(), "{list}");
    }
}
