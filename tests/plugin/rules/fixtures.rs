//! Complete examples as files: `tests/fixtures/rulesets/CASE` holds `netconf.json`, `pod.json`, and the output of
//! `nft list ruleset` after ADD in `rules.nft`.

use std::{fs, path::Path};

use evergreen_cni::rules::ruleset::Ruleset;
use evergreen_test_support::{netns::Namespace, run::CniCall};
use serde_json::Value;

use crate::node::{Node, PLUGIN};

#[test]
fn fixtures_produce_their_rules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/rulesets");
    let node = Node::new();
    let mut cases: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.sort();
    assert!(cases.len() >= 7, "{cases:?}");
    for case in cases {
        let read = |name: &str| fs::read_to_string(case.join(name)).unwrap_or_default();
        let (netconf, pod) = (read("netconf.json"), read("pod.json"));
        let pod: Value = serde_json::from_str(&pod).unwrap();
        node.api.put_pod("shop", "web-0", pod);
        let kubeconfig = node.path("kubeconfig");
        let netconf = netconf.replace("__KUBECONFIG_FILEPATH__", kubeconfig.to_str().unwrap());

        let namespace = Namespace::new();
        let run = |verb: &str| {
            CniCall::new(PLUGIN, verb, namespace.path())
                .pod("shop", "web-0")
                .stdin(netconf.clone())
                .succeed()
                .unwrap_or_else(|e| panic!("{}: {verb}: {e:#}", case.display()))
        };
        run("ADD");
        let found = namespace.nft_list();
        assert!(
            found == read("rules.nft"),
            "{} has\n{}\nbut the kernel has\n{found}",
            case.display(),
            read("rules.nft")
        );

        run("CHECK");
        // The checksum in the comments must not change between versions, or CHECK without the API server would report
        // every older pod as changed.
        namespace
            .run(evergreen_cni::rules::nft::read)
            .map(|found: Ruleset| found.matches_comments())
            .unwrap()
            .unwrap();
    }
}
