use serde_json::{Value, json};

use super::*;
use crate::protocol::netconf::Envelope;

mod sources;

/// Calls `test` with the configuration of Linkerd's chart, changed by `linkerd` and `more`.
fn with_conf<T>(linkerd: Value, more: Value, test: impl FnOnce(&NetConf<'_>) -> T) -> T {
    let mut conf = json!({
        "name": "n", "cniVersion": "1.0.0",
        "linkerd": {"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
                    "inbound-ports-to-ignore": ["4190", "4191"], "outbound-ports-to-ignore": ["4567"],
                    "subnets-to-ignore": ["192.0.2.0/24"]}
    });
    for (into, from) in [("linkerd", linkerd), ("", more)] {
        let at = if into.is_empty() {
            &mut conf
        } else {
            &mut conf[into]
        };
        at.as_object_mut()
            .unwrap()
            .extend(from.as_object().unwrap().clone());
    }
    let text = conf.to_string();
    let envelope = Envelope::read(text.as_bytes()).unwrap();
    test(&NetConf::check(&envelope, "1.0.0").unwrap())
}

fn strings(pairs: &[(&str, &str)]) -> Strings {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn container(name: &str) -> Container {
    Container {
        name: name.into(),
        ..Container::default()
    }
}

fn meshed(annotations: &[(&str, &str)]) -> Pod {
    Pod {
        annotations: strings(annotations),
        containers: vec![container("app"), container(PROXY)],
        ..Pod::default()
    }
}

fn redirect_of(linkerd: Value, pod: &Pod, namespace: Option<&Strings>, families: &[Family]) -> Redirect {
    with_conf(linkerd, json!({}), |conf| {
        let facts = Facts {
            pod,
            namespace,
            service_ports: None,
        };
        match decide(conf, facts, families).unwrap() {
            Decision::Redirect(redirect) => redirect,
            Decision::Skip(reason) => panic!("skipped: {reason}"),
        }
    })
}

#[test]
fn container_names_decide_whether_pod_is_meshed() {
    let mut sidecar = meshed(&[]);
    sidecar.init_containers = vec![
        container("linkerd-network-validator"),
        sidecar.containers.pop().unwrap(),
    ];
    let mut own_init = meshed(&[]);
    own_init.init_containers.push(container(PROXY_INIT));
    for (pod, is_meshed) in [
        (meshed(&[]), true),
        (sidecar, true),
        (own_init, false),
        (
            Pod {
                containers: vec![container("app")],
                ..Pod::default()
            },
            false,
        ),
        (Pod::default(), false),
    ] {
        with_conf(json!({}), json!({}), |conf| {
            let decision = decide(
                conf,
                Facts {
                    pod: &pod,
                    namespace: None,
                    service_ports: None,
                },
                &[],
            )
            .unwrap();
            assert_eq!(matches!(decision, Decision::Redirect(_)), is_meshed, "{pod:?}");
        });
    }
}

#[test]
fn pod_overrides_namespace_overrides_netconf() {
    let pod = meshed(&[
        ("config.linkerd.io/skip-inbound-ports", "9001"),
        ("config.linkerd.io/skip-outbound-ports", "25"),
    ]);
    let namespace = strings(&[
        ("config.linkerd.io/skip-outbound-ports", "1"),
        ("config.linkerd.io/skip-subnets", "10.0.0.0/8, 172.16.0.0/12"),
        ("config.linkerd.io/proxy-gid", "77"),
    ]);
    let redirect = redirect_of(json!({}), &pod, Some(&namespace), &[]);
    assert_eq!(redirect.skip_inbound.to_string(), "4190-4191, 9001", "added");
    assert_eq!(redirect.skip_outbound.to_string(), "25", "replaced");
    assert_eq!(
        redirect.skip_sources.to_string(),
        "10.0.0.0/8, 172.16.0.0/12",
        "replaced, from the namespace"
    );
    assert_eq!((redirect.proxy_uid, redirect.proxy_gid), (Some(2102), Some(77)));
}

#[test]
fn proxy_container_overrides_ports_and_user() {
    let mut pod = meshed(&[]);
    pod.containers[1].run_as_user = Some(1_000_650_000);
    pod.containers[1].env = strings(&[
        ("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "[::]:5143"),
        (
            "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS",
            "127.0.0.1:5140,[::1]:5140",
        ),
        ("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "[::]:5191"),
        ("LINKERD2_PROXY_CONTROL_LISTEN_ADDR", "$(_pod_ip):5190"),
    ]);
    let redirect = redirect_of(json!({}), &pod, None, &[Family::V4, Family::V6]);
    assert_eq!(
        (redirect.inbound_port.number(), redirect.outbound_port.number()),
        (5143, 5140)
    );
    assert_eq!(redirect.proxy_uid, Some(1_000_650_000));
    assert_eq!(redirect.skip_inbound.to_string(), "4190-4191, 5190-5191");
    assert_eq!(redirect.families, [Family::V4, Family::V6], "it listens on [::]");

    pod.annotations = strings(&[
        ("config.linkerd.io/inbound-port", "6143"),
        ("config.linkerd.io/proxy-uid", "3000"),
    ]);
    let redirect = redirect_of(json!({}), &pod, None, &[]);
    assert_eq!(
        (redirect.inbound_port.number(), redirect.proxy_uid),
        (6143, Some(3000)),
        "an annotation wins"
    );
}

#[test]
fn defaults_are_linkerds() {
    let nothing = json!({"incoming-proxy-port": null, "outgoing-proxy-port": null, "proxy-uid": null});
    let redirect = redirect_of(nothing, &meshed(&[]), None, &[]);
    assert_eq!(
        (redirect.inbound_port.number(), redirect.outbound_port.number()),
        (4143, 4140)
    );
    assert_eq!((redirect.proxy_uid, redirect.proxy_gid), (Some(2102), None));
}

#[test]
fn root_bypasses_the_proxy_only_by_group() {
    let mut pod = meshed(&[]);
    pod.containers[1].run_as_user = Some(0);
    with_conf(json!({}), json!({}), |conf| {
        let error = decide(
            conf,
            Facts {
                pod: &pod,
                namespace: None,
                service_ports: None,
            },
            &[],
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("container linkerd-proxy securityContext.runAsUser: is 0"),
            "{error}"
        );
    });
    let redirect = redirect_of(json!({"proxy-gid": 2102}), &pod, None, &[]);
    assert_eq!((redirect.proxy_uid, redirect.proxy_gid), (None, Some(2102)));
}

#[test]
fn families_follow_the_pod_and_the_ipv6_flag() {
    use Family::{V4, V6};
    for (pod_has, flag, programmed) in [
        (&[V4][..], false, &[V4][..]),
        (&[V4], true, &[V4]),
        (&[V6], false, &[V6]),
        (&[V4, V6], false, &[V4]),
        (&[V4, V6], true, &[V4, V6]),
        (&[], false, &[V4]),
        (&[], true, &[V4, V6]),
    ] {
        let redirect = redirect_of(json!({"ipv6": flag}), &meshed(&[]), None, pod_has);
        assert_eq!(redirect.families, programmed, "{pod_has:?} {flag}");
    }
}

#[test]
fn invalid_value_is_named_with_source_and_key() {
    for (key, text) in [
        ("skip-inbound-ports", "80,abc"),
        ("skip-outbound-ports", "9000-8000"),
        ("skip-subnets", "10.0.0.0/33"),
        ("proxy-uid", "twenty"),
        ("proxy-uid", "4294967295"),
        ("proxy-gid", "-1"),
        ("inbound-port", "0"),
        ("admin-port", "x"),
    ] {
        let key = format!("config.linkerd.io/{key}");
        let on_pod = meshed(&[(&key, text)]);
        let namespace = strings(&[(&key, text)]);
        with_conf(json!({}), json!({}), |conf| {
            let facts = Facts {
                pod: &on_pod,
                namespace: None,
                service_ports: None,
            };
            let error = decide(conf, facts, &[]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("pod annotation {key}: ")), "{error}");
            let pod = meshed(&[]);
            let facts = Facts {
                pod: &pod,
                namespace: Some(&namespace),
                service_ports: None,
            };
            if let Err(error) = decide(conf, facts, &[]) {
                assert!(
                    error
                        .to_string()
                        .starts_with(&format!("namespace annotation {key}: ")),
                    "{error}"
                );
            } else {
                assert!(key.ends_with("-port"), "{key} is not inherited");
            }
        });
    }
}
