use super::*;

fn settings(pairs: &[(&str, &str)]) -> RawSettings {
    let lookup = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).into());
    RawSettings::default().with_variables(lookup).unwrap()
}

const ENOUGH: [(&str, &str); 2] = [
    ("CNI_NETWORK_CONFIG", r#"{"type":"linkerd-cni"}"#),
    ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
];

#[test]
fn environment_of_linkerds_chart_is_enough() {
    let config = Config::from_settings(&settings(&ENOUGH)).unwrap();
    assert_eq!(config.server.url, "https://10.96.0.1:443");
    assert_eq!(
        config.paths.kubeconfig.to_string(),
        "/etc/cni/net.d/ZZZ-linkerd-cni-kubeconfig"
    );
    assert_eq!(
        config.paths.own_dir.here(),
        Path::new("/host/etc/cni/net.d/linkerd-cni.evergreen")
    );
    assert_eq!(
        config.server.ca_file,
        Path::new("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
    );
    assert_eq!(config.networks, Networks::First);
}

#[test]
fn ipv6_server_is_bracketed_once() {
    for host in ["fd00:10:96::1", "[fd00:10:96::1]"] {
        let made = parse::server(&settings(&[("KUBERNETES_SERVICE_HOST", host)])).unwrap();
        assert_eq!(made, "https://[fd00:10:96::1]:443");
    }
}

#[test]
fn invalid_settings_are_rejected_by_name() {
    for (name, value) in [
        ("CNI_NETWORK_CONFIG_FILE", "/does/not/exist"),
        ("CNI_NETWORK_CONFIG", "{bad"),
        ("DEST_CNI_NET_DIR", "etc/cni"),
        ("DEST_CNI_BIN_DIR", "bin"),
        ("KUBECONFIG_FILE_NAME", "../k"),
        ("KUBECONFIG_FILE_NAME", "k.conf"),
        ("KUBERNETES_SERVICE_HOST", ""),
        ("KUBERNETES_SERVICE_HOST", "a b"),
        ("KUBERNETES_SERVICE_PORT", "0"),
        ("EVERGREEN_CONFLIST", "a/b"),
        ("EVERGREEN_WAIT_SECONDS", "-1"),
        ("EVERGREEN_WAIT_SECONDS", "18446744073709551615"),
        ("EVERGREEN_ON_TERM", "maybe"),
        ("EVERGREEN_ADMIN_PORT", "http"),
        ("EVERGREEN_ON_TERM_UNSURE", "auto"),
        ("EVERGREEN_TOKEN_SOURCE", "inline"),
        ("EVERGREEN_SERVICE_ACCOUNT", "a/b/c"),
        ("EVERGREEN_TOKEN_SECONDS", "60"),
    ] {
        let mut pairs: Vec<(&str, &str)> = ENOUGH.iter().copied().filter(|(n, _)| *n != name).collect();
        if name == "CNI_NETWORK_CONFIG_FILE" {
            pairs.retain(|(n, _)| *n != "CNI_NETWORK_CONFIG");
        }
        pairs.push((name, value));
        let error = format!("{:#}", Config::from_settings(&settings(&pairs)).unwrap_err());
        let names_it = error.contains(name) || error.contains("netconf template");
        assert!(names_it, "{name}={value}: {error}");
    }
}
