//! When the API server is asked, and what decides when it is unavailable.

use super::*;

#[test]
fn namespace_is_read_only_when_it_matters() {
    let webhook = ("linkerd.io/created-by", "linkerd/proxy-injector edge-26.8.1");
    let all: Vec<_> = overrides::INHERITED.iter().map(|key| (*key, "1")).collect();
    assert!(needs_namespace(&meshed(&[])));
    assert!(needs_namespace(&meshed(&[(
        "linkerd.io/created-by",
        "linkerd/cli dev"
    )])));
    assert!(!needs_namespace(&meshed(&[webhook])));
    assert!(!needs_namespace(&meshed(&all)));
    assert!(!needs_namespace(&Pod::default()));
}

#[test]
fn control_plane_traffic_to_api_bypasses_the_proxy() {
    let mut pod = meshed(&[]);
    pod.labels = strings(&[("linkerd.io/control-plane-component", "identity")]);
    assert!(needs_service(&pod) && !needs_service(&meshed(&[])));
    assert_eq!(
        redirect_of(json!({}), &pod, None, &[]).skip_outbound.to_string(),
        "443, 4567, 6443"
    );
    let ports = PortSet::from_annotation("443,8443").unwrap();
    with_conf(json!({}), json!({}), |conf| {
        let facts = Facts {
            pod: &pod,
            namespace: None,
            service_ports: Some(&ports),
        };
        let Decision::Redirect(redirect) = decide(conf, facts, &[]).unwrap() else {
            panic!("skipped")
        };
        assert_eq!(redirect.skip_outbound.to_string(), "443, 4567, 8443");
    });
}

#[test]
fn precheck_passes_only_unmeshed_pods() {
    let with_annotations =
        |annotations: Value| json!({"runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations}});
    let marked = json!({"linkerd.io/proxy-version": "x"});
    let asking = json!({"linkerd.io/inject": "ingress"});
    for (more, namespace, expected) in [
        (json!({}), "default", "unknown"),
        (json!({}), "kube-system", "pass"),
        (json!({}), "linkerd-cni", "pass"),
        (with_annotations(json!({"a": "b"})), "default", "pass"),
        (
            with_annotations(json!({"linkerd.io/inject": "disabled"})),
            "default",
            "pass",
        ),
        (with_annotations(asking.clone()), "default", "unknown"),
        (with_annotations(asking), "kube-system", "pass"),
        (with_annotations(marked.clone()), "default", "marked"),
        (with_annotations(marked), "kube-system", "marked"),
        (with_annotations(Value::Null), "default", "unknown"),
        (
            json!({"evergreen": {"exempt-namespaces": []}}),
            "kube-system",
            "unknown",
        ),
    ] {
        let found = with_conf(json!({}), more.clone(), |conf| match precheck(conf, namespace) {
            Precheck::Pass(_) => "pass",
            Precheck::Marked => "marked",
            Precheck::Unknown => "unknown",
        });
        assert_eq!(found, expected, "{more} in {namespace}");
    }
    let mut always = with_annotations(json!({}));
    always["evergreen"] = json!({"ask-api": "always"});
    with_conf(json!({}), always, |conf| {
        assert_eq!(precheck(conf, "default"), Precheck::Unknown)
    });
}

#[test]
fn marks_decide_without_the_api_server() {
    let more = json!({"runtimeConfig": {"io.kubernetes.cri.pod-annotations": {
        "linkerd.io/created-by": "linkerd/proxy-injector x", "config.linkerd.io/skip-outbound-ports": "3306"}}});
    with_conf(json!({}), more, |conf| {
        let Decision::Redirect(redirect) = decide_by_annotations(conf, &[Family::V4]).unwrap() else {
            panic!("skipped")
        };
        assert_eq!(redirect.skip_outbound.to_string(), "3306");
        assert_eq!(redirect.proxy_uid, Some(2102));
    });
    let asking =
        json!({"runtimeConfig": {"io.kubernetes.cri.pod-annotations": {"linkerd.io/inject": "enabled"}}});
    with_conf(json!({}), asking, |conf| {
        assert!(matches!(decide_by_annotations(conf, &[]), Ok(Decision::Skip(_))));
    });
}

#[test]
fn control_plane_reaches_api_after_an_outage() {
    for (created_by, skipped) in [
        (json!("linkerd/proxy-injector x"), "4567"),
        (json!("linkerd/cli x"), "4567"),
        (json!("linkerd/helm x"), "443, 4567, 6443"),
    ] {
        let more = json!({"runtimeConfig": {"io.kubernetes.cri.pod-annotations": {
            "linkerd.io/created-by": created_by, "linkerd.io/proxy-version": "x", "linkerd.io/trust-root-sha256": "x"}}});
        with_conf(json!({}), more, |conf| {
            let Decision::Redirect(redirect) = decide_by_annotations(conf, &[]).unwrap() else {
                panic!("skipped")
            };
            assert_eq!(redirect.skip_outbound.to_string(), skipped, "{created_by}");
        });
    }
}

#[test]
fn container_with_the_proxy_user_is_named() {
    let mut pod = meshed(&[]);
    pod.run_as_user = Some(2102);
    pod.containers[1].run_as_user = Some(2102);
    let redirect = redirect_of(json!({}), &pod, None, &[]);
    assert_eq!(containers_with_proxy_user(&pod, &redirect), ["app"]);
    pod.containers[0].run_as_user = Some(1000);
    assert!(containers_with_proxy_user(&pod, &redirect).is_empty());
}
