use std::path::{Path, PathBuf};

use super::{
    super::{originals::Single, survey},
    *,
};
use crate::cli::settings::RawSettings;

const LIST: &str = r#"{"name":"n","plugins":[{"type":"calico"}]}"#;
const OURS: &str = r#"{"name":"n","plugins":[{"type":"calico"},{"type":"mesh"}]}"#;
const SINGLE: &str = r#"{"name":"n","type":"bridge"}"#;

fn config(conflist: &'static str) -> Config {
    let pairs = [
        ("CNI_NETWORK_CONFIG", r#"{"type":"mesh"}"#),
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
        ("KUBERNETES_SERVICE_PORT", "9"),
        ("EVERGREEN_CONFLIST", conflist),
    ];
    let lookup = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
    let given = RawSettings::default().with_variables(lookup).unwrap();
    Config::from_settings(&given).unwrap()
}

fn net(name: &str) -> HostPath {
    HostPath::new(Path::new(""), Path::new("/etc/cni/net.d")).join(name)
}

fn file(name: &str, text: &str) -> NetFile {
    let file = net(name);
    let content = match Network::parse(text.as_bytes(), survey::form(&file)) {
        Ok(network) => Content::Network {
            text: text.into(),
            network,
        },
        Err(why) => Content::Damaged {
            why,
            settled: true,
            text: Some(text.into()),
        },
    };
    NetFile {
        open: file.clone(),
        file,
        behind: None,
        link: None,
        content,
    }
}

fn single(list: &str, name: &str) -> Single {
    Single {
        copy: net("mesh.evergreen").join(format!("{list}.from.{name}")),
        list: net(list),
        file: net(name),
        text: Ok(SINGLE.into()),
    }
}

fn shown(plan: &Plan) -> String {
    plan.to_string().replace("/etc/cni/net.d/", "")
}

#[test]
fn entry_moves_to_the_first_network() {
    let files = vec![file("05-a.conflist", LIST), file("10-b.conflist", OURS)];
    let survey = Survey {
        files,
        ..Survey::default()
    };
    let plan = Plan::install(&config("first"), survey);
    assert_eq!(shown(&plan), "replace 05-a.conflist\nreplace 10-b.conflist\n");
    assert_eq!((plan.networks.len(), plan.removals.len()), (1, 1));
}

#[test]
fn symlink_is_kept_before_it_is_replaced() {
    let link = NetFile {
        behind: Some(HostPath::new(Path::new(""), Path::new("/usr/lib/cni/a"))),
        link: Some(PathBuf::from("/usr/lib/cni/a")),
        ..file("05-a.conflist", LIST)
    };
    let survey = Survey {
        files: vec![link],
        ..Survey::default()
    };
    assert_eq!(
        shown(&Plan::install(&config("first"), survey)),
        "write mesh.evergreen/link.05-a.conflist, then replace 05-a.conflist\n"
    );
}

#[test]
fn single_plugin_file_is_copied_before_its_list() {
    let survey = Survey {
        files: vec![file("05-a.conf", SINGLE)],
        ..Survey::default()
    };
    assert_eq!(
        shown(&Plan::install(&config("first"), survey)),
        "write mesh.evergreen/05-a.conflist.from.05-a.conf, then write 05-a.conflist, then remove 05-a.conf\n"
    );
}

#[test]
fn damaged_list_of_ours_is_rebuilt_and_counts_as_ours() {
    let mut survey = Survey {
        files: vec![file("05-a.conflist", "{")],
        ..Survey::default()
    };
    survey
        .originals
        .singles
        .push(single("05-a.conflist", "05-a.conf"));
    let plan = Plan::install(&config("first"), survey);
    assert_eq!(shown(&plan), "write 05-a.conflist\n");
    assert!(plan.networks.iter().all(|target| target.change.is_none()));
    assert!(plan.findings.is_clean());
}

#[test]
fn uncertain_first_network_keeps_entries_where_they_are() {
    for text in ["{", ""] {
        let files = vec![
            file("05-a.conflist", text),
            file("10-b.conflist", LIST),
            file("20-c.conflist", OURS),
        ];
        let survey = Survey {
            files,
            ..Survey::default()
        };
        let plan = Plan::install(&config("first"), survey);
        assert_eq!(shown(&plan), "replace 10-b.conflist\n");
        assert!(
            plan.findings
                .problems()
                .any(|p| p.text.contains("the runtime cannot load it either"))
        );
    }
}

#[test]
fn removal_restores_the_single_plugin_file() {
    let config = config("first");
    let mut survey = Survey {
        files: vec![file("05-a.conflist", ""), file("10-b.conflist", OURS)],
        ..Survey::default()
    };
    survey
        .originals
        .singles
        .push(single("05-a.conflist", "05-a.conf"));
    assert_eq!(
        shown(&Plan::uninstall(&config.paths, &survey)),
        "restore 05-a.conf and remove 05-a.conflist, then forget \
         mesh.evergreen/05-a.conflist.from.05-a.conf\nreplace 10-b.conflist\n"
    );
}
