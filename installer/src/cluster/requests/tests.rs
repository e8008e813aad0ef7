//! Each request against the fake API server.

use std::time::Duration;

use evergreen_kube::{
    Kubeconfig, Source,
    deadline::Deadline,
    log::{Component, Level, Log},
};
use evergreen_test_support::{api::Api, pki::Pki};

use super::*;

const ACCOUNT: &str = "system:serviceaccount:linkerd-cni:linkerd-cni";
const POD: &str = "/api/v1/namespaces/shop/pods/web-0";

struct Cluster {
    api: Api,
    pki: Pki,
}

impl Cluster {
    fn new() -> Self {
        let pki = Pki::new();
        let api = Api::start(&pki);
        api.put_pod(
            "shop",
            "web-0",
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"uid": "u"}}),
        );
        Self { api, pki }
    }

    /// A client with a good token.
    fn client(&self) -> Client {
        client(self, &self.api.mint("linkerd-cni", "linkerd-cni", None, 3600))
    }
}

fn client(cluster: &Cluster, token: &str) -> Client {
    let bundle = Source::Data(Secret::new(cluster.pki.ca.pem()));
    let token = Source::Data(Secret::new(token));
    let kubeconfig = Kubeconfig::of(&cluster.api.url(), bundle, token).expect("a good URL");
    let deadline = Deadline::after(Duration::from_secs(10));
    Client::with(kubeconfig, deadline, Log::new(Component::Installer, Level::Warn)).expect("good credentials")
}

fn wanted<'a>(bound: Option<BoundTo<'a>>) -> TokenRequest<'a> {
    TokenRequest {
        namespace: "linkerd-cni",
        account: "evergreen-cni-plugin",
        audiences: &[],
        seconds: 86_400,
        bound,
    }
}

#[test]
fn identity_and_rights_are_reviewed() {
    let cluster = Cluster::new();
    let mut client = cluster.client();
    assert_eq!(whoami(&mut client).unwrap(), ACCOUNT);

    assert!(can_i(&mut client, "get", "pods", "").unwrap());
    cluster.api.forbid("get", "pods");
    assert!(!can_i(&mut client, "get", "pods", "").unwrap());
    assert!(can_i(&mut client, "create", "serviceaccounts", "token").unwrap());
    cluster.api.forbid("create", "serviceaccounts/token");
    assert!(!can_i(&mut client, "create", "serviceaccounts", "token").unwrap());
}

#[test]
fn node_bound_token_is_revoked_with_the_node() {
    let cluster = Cluster::new();
    cluster.api.put_node("node1", "uid-1");
    let mut asking = cluster.client();
    let bound = BoundTo {
        kind: "Node",
        name: "node1",
        uid: "uid-1",
    };
    let minted = token_request(&mut asking, &wanted(Some(bound))).unwrap();
    let in_a_day = clock::now() + 86_400;
    assert!((minted.expires - in_a_day).abs() < 60, "{minted:?}");
    let token = std::str::from_utf8(minted.token.reveal()).unwrap();
    assert!(!format!("{minted:?}").contains(token));

    assert_eq!(
        whoami(&mut client(&cluster, token)).unwrap(),
        "system:serviceaccount:linkerd-cni:evergreen-cni-plugin"
    );
    assert_eq!(node(&mut asking, "node1").unwrap().uid, "uid-1");
    cluster.api.remove("/api/v1/nodes/node1");
    assert_eq!(
        whoami(&mut client(&cluster, token)).unwrap_err().class,
        Class::Unauthorized
    );
}

#[test]
fn refused_token_requests_have_distinct_classes() {
    let cluster = Cluster::new();
    cluster.api.put_node("node1", "uid-2");
    let mut client = cluster.client();
    let mut class =
        |bound: Option<BoundTo<'_>>| token_request(&mut client, &wanted(bound)).unwrap_err().class;
    let on = |kind, name, uid| Some(BoundTo { kind, name, uid });
    assert_eq!(class(on("Node", "node1", "uid-1")), Class::Conflict);
    assert_eq!(class(on("Node", "node9", "")), Class::NotFound);
    assert_eq!(class(on("Lease", "x", "")), Class::BadRequest);
    cluster.api.forbid("create", "serviceaccounts/token");
    assert_eq!(class(None), Class::Forbidden);
}

#[test]
fn daemonset_exists_is_deleted_or_gone() {
    let cluster = Cluster::new();
    let path = "/apis/apps/v1/namespaces/linkerd-cni/daemonsets/linkerd-cni";
    cluster.api.put(
        path,
        json!({"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"uid": "u"}}),
    );
    let mut client = cluster.client();
    let mut ask = || daemonset(&mut client, "linkerd-cni", "linkerd-cni");
    assert!(!ask().unwrap().deleting);
    let going = json!({"uid": "u", "deletionTimestamp": "2026-11-30T00:00:00Z"});
    cluster.api.put(
        path,
        json!({"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": going}),
    );
    assert!(ask().unwrap().deleting);
    cluster.api.remove(path);
    assert_eq!(ask().unwrap_err().class, Class::NotFound);
}

#[test]
fn pod_is_deleted_only_by_its_uid() {
    let cluster = Cluster::new();
    let mut client = cluster.client();
    let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"generateName": "web-0."}, "reason": "Unmeshed"});
    create(
        &mut client,
        "/api/v1/namespaces/shop/events",
        &event,
        "report an Event",
    )
    .unwrap();
    assert_eq!(
        cluster.api.objects_under("/api/v1/namespaces/shop/events/")[0]["reason"],
        "Unmeshed"
    );
    let pod = get(&mut client, POD, "get pod shop/web-0").unwrap();
    let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(
        delete(&mut client, POD, "other", "delete pod shop/web-0")
            .unwrap_err()
            .class,
        Class::Conflict
    );
    delete(&mut client, POD, &uid, "delete pod shop/web-0").unwrap();
    assert_eq!(
        get(&mut client, POD, "get pod shop/web-0").unwrap_err().class,
        Class::NotFound
    );
}
