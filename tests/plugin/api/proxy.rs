//! `proxy-url` is the only proxy setting; proxy variables of the environment are ignored.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use evergreen_kube::Class;
use evergreen_test_support::{
    pki::{CURRENT, Pair},
    run::{CniCall, binary},
};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};

use crate::node::Node;

/// A proxy that connects to any target and records the requests.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start(serve: fn(&mut BufReader<TcpStream>) -> io::Result<(String, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen on loopback");
        let address = listener.local_addr().expect("a bound address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                thread::spawn(move || {
                    let mut client = BufReader::new(client);
                    let (target, what) = serve(&mut client)?;
                    log.lock().expect("no panic while it is held").push(what);
                    join(client, TcpStream::connect(target)?)
                });
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic while it is held").clone()
    }
}

/// Copies both ways until one side ends.
fn join(client: BufReader<TcpStream>, server: TcpStream) -> io::Result<()> {
    let (mut up, mut down) = (client.get_ref().try_clone()?, server.try_clone()?);
    let mut client = client;
    let mut to_server = server;
    thread::spawn(move || {
        let _ = io::copy(&mut client, &mut to_server);
        to_server.shutdown(std::net::Shutdown::Both)
    });
    io::copy(&mut down, &mut up)?;
    up.shutdown(std::net::Shutdown::Both)
}

/// Serves HTTP CONNECT; records the whole request head.
fn http(client: &mut BufReader<TcpStream>) -> io::Result<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if client.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let target = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
    client
        .get_mut()
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    Ok((target, head))
}

/// Serves SOCKS 5 without authentication, for an IPv4 target (RFC 1928).
fn socks(client: &mut BufReader<TcpStream>) -> io::Result<(String, String)> {
    let mut greeting = [0; 2];
    client.read_exact(&mut greeting)?;
    client.read_exact(&mut vec![0; usize::from(greeting[1])])?;
    client.get_mut().write_all(&[5, 0])?;
    let mut request = [0; 10];
    client.read_exact(&mut request)?;
    let ip = std::net::Ipv4Addr::new(request[4], request[5], request[6], request[7]);
    let target = format!("{ip}:{}", u16::from_be_bytes([request[8], request[9]]));
    client.get_mut().write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    Ok((target.clone(), target))
}

/// Starts a TLS listener that forwards to the proxy in plain text.
fn behind_tls(proxy: &Proxy, pair: &Pair) -> SocketAddr {
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
        .flatten()
        .collect();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key as PEM");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS versions the provider has")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate that fits its key");
    let (config, proxy) = (Arc::new(config), proxy.address);
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen on loopback");
    let address = listener.local_addr().expect("a bound address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a TLS connection");
            thread::spawn(move || pump(StreamOwned::new(connection, client), TcpStream::connect(proxy)?));
        }
    });
    address
}

/// Copies both ways, alternately, until one side ends.
fn pump(mut client: StreamOwned<ServerConnection, TcpStream>, mut server: TcpStream) -> io::Result<()> {
    let turn = Some(Duration::from_millis(2));
    client.sock.set_read_timeout(turn)?;
    server.set_read_timeout(turn)?;
    let mut buffer = [0; 16 << 10];
    let waits = |e: &io::Error| matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    loop {
        match client.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => server.write_all(&buffer[..n])?,
            Err(e) if waits(&e) => {}
            Err(e) => return Err(e),
        }
        match server.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => client.write_all(&buffer[..n])?,
            Err(e) if waits(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

fn through(node: &Node, url: &str) -> Value {
    json!({"server": node.api.url(), "certificate-authority": "ca.crt", "proxy-url": url})
}

#[test]
fn http_proxy_never_sees_the_token() {
    let node = Node::new();
    let proxy = Proxy::start(http);
    node.write_kubeconfig(
        &node.with_cluster(through(&node, &format!("http://me:pa%3Ass@{}", proxy.address))),
    );
    node.ask().unwrap();
    let asked = proxy.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked[0].starts_with(&format!("CONNECT {} HTTP/1.1\r\n", node.api.address())),
        "{asked:?}"
    );
    assert!(
        asked[0].contains("Proxy-Authorization: Basic bWU6cGE6c3M="),
        "{asked:?}"
    );
    assert!(!asked[0].contains("Bearer"), "{asked:?}");
}

#[test]
fn server_name_is_checked_behind_a_proxy() {
    let node = Node::new();
    let by_name = node.pki.ca.server_for(&["api.example.org"], CURRENT);
    node.api.use_certificate(&by_name, node.pki.ca.pem());
    let proxy = Proxy::start(http);
    let mut cluster = through(&node, &format!("http://{}", proxy.address));
    cluster["tls-server-name"] = "api.example.org".into();
    node.write_kubeconfig(&node.with_cluster(cluster));
    node.ask().unwrap();
}

#[test]
fn https_proxy_and_server_names_are_separate() {
    let node = Node::new();
    let by_name = node.pki.ca.server_for(&["api.example.org"], CURRENT);
    node.api.use_certificate(&by_name, node.pki.ca.pem());
    let proxy = Proxy::start(http);
    let address = behind_tls(&proxy, &node.pki.ca.server_for(&["127.0.0.1"], CURRENT));
    let mut cluster = through(&node, &format!("https://{address}"));
    cluster["tls-server-name"] = "api.example.org".into();
    node.write_kubeconfig(&node.with_cluster(cluster));
    node.ask().unwrap();
    assert_eq!(proxy.asked().len(), 1);
}

#[test]
fn socks_proxy_connects() {
    let node = Node::new();
    let proxy = Proxy::start(socks);
    node.write_kubeconfig(&node.with_cluster(through(&node, &format!("socks5://{}", proxy.address))));
    node.ask().unwrap();
    assert_eq!(proxy.asked(), [node.api.address().to_string()]);
}

#[test]
fn failing_proxy_is_reported_without_its_password() {
    let node = Node::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut client = client;
            let _ = client.read(&mut [0; 1024]);
            let _ =
                client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for url in [
        format!("http://me:s3cret@{address}"),
        "http://me:s3cret@127.0.0.1:1".to_owned(),
    ] {
        node.write_kubeconfig(&node.with_cluster(through(&node, &url)));
        let error = node.ask_within(Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.class, Class::Unreachable, "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[test]
fn proxy_environment_variables_are_ignored() {
    let node = Node::new();
    let dead = "http://127.0.0.1:1";
    let netconf = json!({"cniVersion": "1.0.0", "name": "linkerd-cni", "type": "linkerd-cni",
        "kubernetes": {"kubeconfig": node.path("kubeconfig")}, "linkerd": {"simulate": true},
        "prevResult": {"cniVersion": "1.0.0", "interfaces": [], "ips": []}});
    let mut call = CniCall::new(binary("evergreen-cni"), "ADD", "/var/run/netns/none").pod("shop", "web-0");
    for name in [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        call = call.env(name, dead);
    }
    let reply = call.netconf(&netconf).run().unwrap();
    assert_eq!(
        node.api.requests().iter().map(|r| r.status).collect::<Vec<_>>(),
        [200],
        "{reply:?}"
    );
}

#[test]
fn dead_proxy_is_named_without_its_password() {
    let node = Node::new();
    node.write_kubeconfig(&node.with_cluster(
        json!({"server": node.api.url(), "certificate-authority": "ca.crt",
        "proxy-url": "http://u:s3cret-t0ken@127.0.0.1:1"}),
    ));
    let said = node.failing_add();
    assert!(said.contains("via proxy 127.0.0.1:1"), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
}
