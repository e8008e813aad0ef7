use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring, pki_types::CertificateDer,
};
use serde_json::{Value, json};

use super::*;

/// Sends one request on a connection of its own and reads until the server closes it.
fn ask(api: &Api, pki: &Pki, request: &str, token: &str, body: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(pki.ca.der().to_vec())).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(tls, TcpStream::connect(api.address()).unwrap());
    let authorization = if token.is_empty() {
        String::new()
    } else {
        format!("Authorization: Bearer {token}\r\n")
    };
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\n{authorization}Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    stream.sock.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn a_token_is_accepted_until_it_is_refused_and_a_minted_one_until_its_node_is_gone() {
    let pki = Pki::new();
    let api = Api::start(&pki);
    let pod = "GET /api/v1/namespaces/shop/pods/web-0";
    api.put_pod("shop", "web-0", json!({"kind": "Pod", "apiVersion": "v1"}));
    api.put_node("node1", "uid-1");

    assert!(ask(&api, &pki, pod, "", "").contains("User \\\"system:anonymous\\\" cannot get"));
    assert!(ask(&api, &pki, pod, "one", "").starts_with("HTTP/1.1 401"));
    api.accept_token("one", "system:serviceaccount:linkerd-cni:linkerd-cni");
    assert!(ask(&api, &pki, pod, "one", "").starts_with("HTTP/1.1 200"));

    let mint = "POST /api/v1/namespaces/linkerd-cni/serviceaccounts/plugin/token";
    let spec = json!({"spec": {"boundObjectRef": {"kind": "Node", "name": "node1", "uid": "uid-1"}}});
    let minted = ask(&api, &pki, mint, "one", &spec.to_string());
    let minted: Value = serde_json::from_str(minted.split_once("\r\n\r\n").unwrap().1).unwrap();
    let token = minted["status"]["token"].as_str().unwrap();
    assert!(ask(&api, &pki, pod, token, "").starts_with("HTTP/1.1 200"));
    api.remove("/api/v1/nodes/node1");
    assert!(ask(&api, &pki, pod, token, "").starts_with("HTTP/1.1 401"));

    api.refuse_token("one");
    assert!(ask(&api, &pki, pod, "one", "").starts_with("HTTP/1.1 401"));
    let seen = api.requests();
    assert_eq!(seen.len(), 7, "{seen:#?}");
    assert_eq!(api.connections(), 7);
}

#[test]
fn a_black_hole_takes_no_connection_and_refuses_none() {
    let hole = BlackHole::open();
    let start = Instant::now();
    let error = TcpStream::connect_timeout(&hole.address(), Duration::from_millis(200)).unwrap_err();
    assert_eq!(
        error.kind(),
        std::io::ErrorKind::TimedOut,
        "after {:?}",
        start.elapsed()
    );
}

#[test]
fn a_paused_server_refuses_and_listens_on_the_same_port_afterwards() {
    let pki = Pki::new();
    let mut api = Api::start(&pki);
    let address = api.address();
    api.pause();
    assert_eq!(
        TcpStream::connect(address).unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
    api.resume();
    assert_eq!(api.address(), address);
    assert!(ask(&api, &pki, "GET /readyz", "", "").ends_with("\r\n\r\nok"));
}
