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
fn the_server_says_who_we_are_and_what_we_may() {
    let cluster = Cluster::new();
    let mut client = cluster.client();
    let user = client.self_subject_review().unwrap();
    assert_eq!(user.username, ACCOUNT);

    assert!(client.can_i("get", "pods", "").unwrap());
    cluster.api.forbid("get", "pods");
    assert!(!client.can_i("get", "pods", "").unwrap());
    assert!(client.can_i("create", "serviceaccounts", "token").unwrap());
    cluster.api.forbid("create", "serviceaccounts/token");
    assert!(!client.can_i("create", "serviceaccounts", "token").unwrap());
}

#[test]
fn a_token_is_minted_for_a_node_and_works_until_the_node_is_gone() {
    let cluster = Cluster::new();
    cluster.api.put_node("node1", "uid-1");
    let mut asking = cluster.client();
    let bound = BoundTo {
        kind: "Node",
        name: "node1",
        uid: "uid-1",
    };
    let minted = asking.token_request(&wanted(Some(bound))).unwrap();
    let in_a_day = clock::now() + 86_400;
    assert!((minted.expires - in_a_day).abs() < 60, "{minted:?}");
    let token = std::str::from_utf8(minted.token.reveal()).unwrap();
    assert!(!format!("{minted:?}").contains(token));

    let user = client(&cluster, token).self_subject_review().unwrap();
    assert_eq!(
        user.username,
        "system:serviceaccount:linkerd-cni:evergreen-cni-plugin"
    );
    assert_eq!(asking.node("node1").unwrap().uid, "uid-1");
    cluster.api.remove("/api/v1/nodes/node1");
    assert_eq!(
        client(&cluster, token).self_subject_review().unwrap_err().class,
        Class::Unauthorized
    );
}

#[test]
fn a_token_that_cannot_be_minted_says_by_its_class_what_to_try_next() {
    let cluster = Cluster::new();
    cluster.api.put_node("node1", "uid-2");
    let mut client = cluster.client();
    let mut class = |bound: Option<BoundTo<'_>>| client.token_request(&wanted(bound)).unwrap_err().class;
    let on = |kind, name, uid| Some(BoundTo { kind, name, uid });
    assert_eq!(class(on("Node", "node1", "uid-1")), Class::Conflict);
    assert_eq!(class(on("Node", "node9", "")), Class::NotFound);
    assert_eq!(class(on("Lease", "x", "")), Class::BadRequest);
    cluster.api.forbid("create", "serviceaccounts/token");
    assert_eq!(class(None), Class::Forbidden);
}

#[test]
fn a_daemonset_is_there_going_or_gone() {
    let cluster = Cluster::new();
    let path = "/apis/apps/v1/namespaces/linkerd-cni/daemonsets/linkerd-cni";
    cluster.api.put(
        path,
        json!({"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"uid": "u"}}),
    );
    let mut client = cluster.client();
    let mut ask = || client.daemonset("linkerd-cni", "linkerd-cni");
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
fn an_event_is_created_and_a_pod_deleted_only_under_its_own_uid() {
    let cluster = Cluster::new();
    let mut client = cluster.client();
    let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"generateName": "web-0."}, "reason": "Unmeshed"});
    client
        .create("/api/v1/namespaces/shop/events", &event, "report an Event")
        .unwrap();
    assert_eq!(
        cluster.api.objects_under("/api/v1/namespaces/shop/events/")[0]["reason"],
        "Unmeshed"
    );
    let pod = client.object(POD, "get pod shop/web-0").unwrap();
    let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(
        client
            .delete(POD, "other", "delete pod shop/web-0")
            .unwrap_err()
            .class,
        Class::Conflict
    );
    client.delete(POD, &uid, "delete pod shop/web-0").unwrap();
    assert_eq!(
        client.object(POD, "get pod shop/web-0").unwrap_err().class,
        Class::NotFound
    );
}
