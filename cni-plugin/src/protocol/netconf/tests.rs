use serde_json::{Value, json};

use super::*;
use crate::net::cidr::Family;

/// The configuration that Linkerd's chart renders, with name, version and result from the runtime.
fn chart() -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "linkerd-cni", "type": "linkerd-cni", "log_level": "info",
        "capabilities": {"io.kubernetes.cri.pod-annotations": true},
        "kubernetes": {"kubeconfig": "/etc/cni/net.d/ZZZ-linkerd-cni-kubeconfig"},
        "linkerd": {
            "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102, "ports-to-redirect": [],
            "inbound-ports-to-ignore": ["4191", "4190"], "outbound-ports-to-ignore": ["4567", "4568"],
            "simulate": false, "use-wait-flag": false, "iptables-mode": "nft", "ipv6": false
        },
        "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.5/24"}, {"address": "fd00::5/64"}]}
    })
}

fn with(path: &str, value: Value) -> String {
    let mut conf = chart();
    let mut at = &mut conf;
    for key in path.split('/') {
        at = &mut at[key];
    }
    *at = value;
    conf.to_string()
}

fn check<T>(stdin: &str, read: impl FnOnce(&NetConf<'_>) -> T) -> Result<T, InvalidNetConf> {
    let envelope = Envelope::read(stdin.as_bytes())?;
    let version = envelope.version()?;
    let conf = NetConf::check(&envelope, version)?.with_previous(&envelope)?;
    Ok(read(&conf))
}

#[test]
fn chart_configuration_is_read() {
    check(&chart().to_string(), |conf| {
        assert_eq!(conf.version, "1.0.0");
        assert_eq!(conf.log_level, Level::Info);
        assert_eq!(conf.skip_inbound.to_string(), "4190-4191");
        assert_eq!(conf.skip_outbound.to_string(), "4567-4568");
        assert_eq!(conf.iptables_mode, IptablesMode::Nft);
        assert_eq!(conf.proxy.uid, Some(2102));
        assert_eq!(conf.previous.as_ref().unwrap().families, [Family::V4, Family::V6]);
        assert_eq!(conf.exempt_namespaces, ["kube-system", "linkerd-cni"]);
        assert_eq!(conf.deadline, Duration::from_secs(10));
        assert!(conf.annotations.is_none() && conf.annotations_decide && !conf.always_ask);
    })
    .unwrap();
}

#[test]
fn null_counts_as_absent() {
    for conf in [
        r#"{"name":"n"}"#.into(),
        with("linkerd", Value::Null),
        with("linkerd/ipv6", Value::Null),
    ] {
        check(&conf, |conf| assert!(!conf.ipv6)).unwrap();
    }
    check(&with("prevResult", Value::Null), |conf| {
        assert!(conf.previous.is_none())
    })
    .unwrap();
}

#[test]
fn invalid_value_is_named_with_its_key() {
    for (path, value) in [
        ("linkerd/incoming-proxy-port", json!("4143")),
        ("linkerd/incoming-proxy-port", json!(0)),
        ("linkerd/outgoing-proxy-port", json!(65536)),
        ("linkerd/proxy-uid", json!(0)),
        ("linkerd/proxy-uid", json!(-1)),
        ("linkerd/proxy-uid", json!(4_294_967_295_u32)),
        ("linkerd/proxy-gid", json!("x")),
        ("linkerd/ports-to-redirect", json!([80, 0])),
        ("linkerd/inbound-ports-to-ignore", json!(["80-"])),
        ("linkerd/outbound-ports-to-ignore", json!([25])),
        ("linkerd/subnets-to-ignore", json!(["10.0.0.0/33"])),
        ("linkerd/iptables-mode", json!("$IPTABLES_MODE")),
        ("linkerd", json!([])),
        ("evergreen/dead-line", json!(1)),
        ("evergreen/on-api-failure", json!("maybe")),
        ("evergreen/deadline-seconds", json!(0)),
        ("kubernetes/kubeconfig", json!(7)),
        ("prevResult", json!("x")),
        ("prevResult", json!([])),
        ("prevResult", json!({"cniVersion": "0.4.0"})),
    ] {
        let error = check(&with(path, value.clone()), |_| ()).unwrap_err();
        let (text, key) = (error.to_string(), path.replace('/', "."));
        assert!(text.contains(&format!("{key} ")), "{path} = {value}: {text}");
    }
}

#[test]
fn envelope_is_checked_like_the_reference() {
    for stdin in ["", "{", "[]", "\"x\"", "7", "{} x", r#"{"name":7}"#, "\u{feff}{}"] {
        assert!(
            matches!(check(stdin, |_| ()), Err(InvalidNetConf::Decoding(_))),
            "{stdin:?}"
        );
    }
    for stdin in ["null", "{}", r#"{"name":""}"#, r#"{"name":null}"#] {
        assert_eq!(
            check(stdin, |_| ()),
            Err(InvalidNetConf::MissingName),
            "{stdin:?}"
        );
    }
    assert_eq!(
        check(r#"{"name":"a b"}"#, |_| ()),
        Err(InvalidNetConf::BadName("a b".into()))
    );
    assert_eq!(
        check(r#"{"name":"a","name":"b","cniVersion":"1.1.0"}"#, |conf| conf
            .version),
        Ok("1.1.0")
    );
}

#[test]
fn versions_are_compared_like_the_reference() {
    let envelope = |version: Value| json!({"name": "n", "cniVersion": version}).to_string();
    for (version, expected) in [
        (Value::Null, "0.1.0"),
        (json!(""), "0.1.0"),
        (json!("0.2.0"), "0.2.0"),
        (json!("1.1.0"), "1.1.0"),
    ] {
        assert_eq!(check(&envelope(version), |conf| conf.version), Ok(expected));
    }
    for version in ["1.0", "0.5.0", "1.2.0", "abc", "2.0.0"] {
        assert_eq!(
            check(&envelope(json!(version)), |_| ()),
            Err(InvalidNetConf::Version(version.into()))
        );
    }
    let since = |version: &str| {
        let text = envelope(json!(version));
        Envelope::read(text.as_bytes())
            .unwrap()
            .version_since("0.4.0", "CHECK")
    };
    assert_eq!(since("0.4.0"), Ok("0.4.0"));
    assert_eq!(since("0.3.1"), Err(InvalidNetConf::VersionTooOld("CHECK")));
    assert_eq!(since(""), Err(InvalidNetConf::VersionTooOld("CHECK")));
    assert_eq!(since("0.4.1"), Err(InvalidNetConf::Version("0.4.1".into())));
    assert_eq!(since("1.2.0"), Err(InvalidNetConf::VersionTooNew("CHECK")));
    assert!(matches!(since("abc"), Err(InvalidNetConf::Decoding(_))));
}

#[test]
fn annotations_of_unknown_shape_count_as_absent() {
    for (runtime, known) in [
        (json!({POD_ANNOTATIONS: {"a": "b"}}), true),
        (json!({POD_ANNOTATIONS: {}}), true),
        (json!({POD_ANNOTATIONS: null}), false),
        (json!({POD_ANNOTATIONS: {"a": 1}}), false),
        (json!({"bandwidth": {"IngressRate": 1}}), false),
        (Value::Null, false),
    ] {
        let conf = with("runtimeConfig", runtime.clone());
        assert_eq!(
            check(&conf, |conf| conf.annotations.is_some()),
            Ok(known),
            "{runtime}"
        );
    }
}
