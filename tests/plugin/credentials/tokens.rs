//! Tokens, client certificates and authorities that rotate or are damaged: the next call works, or its error names the
//! problem without the secret.

use std::{fs, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use evergreen_kube::Class;
use evergreen_test_support::pki::{Authority, CURRENT, EXPIRED};
use serde_json::json;

use crate::node::{ACCOUNT, Node, POD};

#[test]
fn replaced_token_is_used_by_next_call() {
    let node = Node::new();
    node.ask().unwrap();
    let old = fs::read_to_string(node.path("token")).unwrap();
    node.rotate();
    node.api.refuse_token(&old);
    node.ask().unwrap();
    let all = node.api.requests();
    assert_eq!(
        all.iter().map(|r| r.status).collect::<Vec<_>>(),
        [200, 200],
        "{all:#?}"
    );
}

#[test]
fn whitespace_around_a_token_is_ignored() {
    let node = Node::new();
    let token = node.rotate();
    for written in [
        format!("{token}\n"),
        format!("{token}\r\n"),
        format!("  {token} \n\n"),
    ] {
        node.write("token", &written);
        node.ask().unwrap_or_else(|e| panic!("{written:?}: {e}"));
    }
}

#[test]
fn long_token_is_sent_whole() {
    let node = Node::new();
    for length in [8 << 10, 40 << 10, 200 << 10] {
        let token = "t".repeat(length);
        node.api.accept_token(&token, ACCOUNT);
        node.write("token", &token);
        node.ask().unwrap_or_else(|e| panic!("{length}: {e}"));
    }
}

#[test]
fn token_file_without_a_token_is_named() {
    let node = Node::new();
    for (content, says) in [
        ("", "is empty"),
        (" \n", "is empty"),
        ("one\ntwo", "is malformed"),
        ("a\u{1}b", "is malformed"),
    ] {
        node.write("token", content);
        let error = node.ask().unwrap_err();
        assert_eq!(error.class, Class::Credential, "{content:?}: {error}");
        assert!(error.is_unavailable());
        let error = error.to_string();
        assert!(
            error.contains(says) && error.contains(node.path("token").to_str().unwrap()),
            "{content:?}: {error}"
        );
    }
    fs::remove_file(node.path("token")).unwrap();
    let error = node.ask().unwrap_err().to_string();
    assert!(
        error.contains("token does not exist; the installer writes this file"),
        "{error}"
    );
    assert_eq!(node.api.connections(), 0, "nothing was sent");
}

#[test]
fn token_file_wins_over_inline_token() {
    let node = Node::new();
    node.api
        .accept_token("inline", "system:serviceaccount:linkerd-cni:inline");
    node.write_kubeconfig(&node.with_user(json!({"tokenFile": "token", "token": "inline"})));
    node.ask().unwrap();
    fs::remove_file(node.path("token")).unwrap();
    node.ask().unwrap();
    let users: Vec<_> = node.api.requests().into_iter().map(|r| r.user.unwrap()).collect();
    assert_eq!(
        users,
        [
            "system:serviceaccount:linkerd-cni:linkerd-cni",
            "system:serviceaccount:linkerd-cni:inline"
        ]
    );
}

#[test]
fn client_certificate_is_read_from_every_source() {
    let node = Node::new();
    let pair = node.pki.ca.client("system:node:node1", &["system:nodes"]);
    node.api.accept_certificate(&pair, "system:node:node1");
    node.write("tls.crt", &pair.certificate);
    node.write("tls.key", &pair.key);
    node.write("both.pem", &format!("{}{}", pair.certificate, pair.key));
    for user in [
        json!({"client-certificate": "tls.crt", "client-key": "tls.key"}),
        json!({"client-certificate": "both.pem", "client-key": "both.pem"}),
        json!({"client-certificate-data": STANDARD.encode(&pair.certificate), "client-key-data": STANDARD.encode(&pair.key)}),
    ] {
        node.write_kubeconfig(&node.with_user(user.clone()));
        node.ask().unwrap_or_else(|e| panic!("{user}: {e}"));
    }
    assert!(
        node.api
            .requests()
            .iter()
            .all(|r| r.user.as_deref() == Some("system:node:node1"))
    );
}

#[test]
fn unusable_client_certificate_is_an_error() {
    let node = Node::new();
    let (one, other) = (node.pki.ca.client("a", &[]), node.pki.ca.client("b", &[]));
    let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (what, certificate, key, says) in [
        (
            "another certificate's key",
            one.certificate.as_str(),
            other.key.as_str(),
            "cannot be used",
        ),
        ("no key", &one.certificate, "nothing", "it has no private key"),
        (
            "an encrypted key",
            &one.certificate,
            encrypted,
            "an encrypted one",
        ),
        ("no certificate", "nothing", &one.key, "it has no certificate"),
        ("a bad certificate", bad, &one.key, "cannot be used"),
        ("an empty key", &one.certificate, "", "is empty"),
    ] {
        node.write("tls.crt", certificate);
        node.write("tls.key", key);
        node.write_kubeconfig(
            &node.with_user(json!({"client-certificate": "tls.crt", "client-key": "tls.key"})),
        );
        let error = node.ask().expect_err(what);
        assert_eq!(error.class, Class::Credential, "{what}: {error}");
        assert!(error.to_string().contains(says), "{what}: {error}");
        assert!(error.to_string().contains("tls."), "{what}: {error}");
    }
}

#[test]
fn ca_rotation_works_at_every_step() {
    let node = Node::new();
    node.ask().unwrap();
    node.write(
        "ca.crt",
        &format!("{}{}", node.pki.ca.pem(), node.pki.second.pem()),
    );
    node.ask().unwrap();
    node.api
        .use_certificate(&node.pki.second.server(), node.pki.second.pem());
    node.ask().unwrap();
    node.write("ca.crt", node.pki.second.pem());
    node.ask().unwrap();
}

#[test]
fn one_valid_authority_is_enough() {
    let node = Node::new();
    let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    node.write("ca.crt", &format!("{bad}{}", node.pki.ca.pem()));
    node.ask().unwrap();
    for (content, says) in [
        ("", "is empty"),
        (bad, "no usable certificate (1 unreadable)"),
        ("x", "contains no certificate"),
    ] {
        node.write("ca.crt", content);
        let error = node.ask().unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        let error = error.to_string();
        assert!(
            error.contains(says) && error.contains("ca.crt"),
            "{content:?}: {error}"
        );
    }
}

#[test]
fn unknown_authority_error_names_both_sides() {
    let node = Node::new();
    node.write("ca.crt", node.pki.second.pem());
    let error = node.ask().unwrap_err();
    assert_eq!(error.class, Class::Trust, "{error}");
    let error = error.to_string();
    for says in [
        "the server's certificate is not signed by a CA of the bundle",
        "the server presented \"kube-apiserver\" (expires 2120-01-01T00:00:00Z) issued by \"evergreen-test-ca-1\"",
        "ca.crt contains \"evergreen-test-ca-2\" (expires 2120-01-01T00:00:00Z)",
        "let the installer update ca.crt",
    ] {
        assert!(error.contains(says), "{says:?} is not in {error}");
    }
}

#[test]
fn expired_server_certificate_is_reported() {
    let node = Node::new();
    let expired = node.pki.ca.server_for(&["127.0.0.1"], EXPIRED);
    node.api.use_certificate(&expired, node.pki.ca.pem());
    let error = node.ask().unwrap_err();
    assert_eq!(error.class, Class::Trust, "{error}");
    assert!(
        error
            .to_string()
            .contains("renew it, or correct this node's clock"),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("\"kube-apiserver\" (expired 2002-01-01T00:00:00Z)"),
        "{error}"
    );
}

#[test]
fn self_signed_server_must_match_name_and_dates() {
    let node = Node::new();
    let own = Authority::server_of_its_own("127.0.0.1", CURRENT);
    node.api.use_certificate(&own, "");
    node.write("ca.crt", &own.certificate);
    node.ask().unwrap();
    for (what, own) in [
        ("another name", Authority::server_of_its_own("10.0.0.1", CURRENT)),
        ("past dates", Authority::server_of_its_own("127.0.0.1", EXPIRED)),
    ] {
        node.api.use_certificate(&own, "");
        node.write("ca.crt", &own.certificate);
        let error = node.ask().expect_err(what);
        assert_eq!(error.class, Class::Trust, "{what}: {error}");
    }
}

#[test]
fn rejected_token_is_reread_once() {
    let node = Node::new();
    let old = fs::read_to_string(node.path("token")).unwrap();
    let mut client = node.client(Duration::from_secs(5)).unwrap();
    node.api.refuse_token(&old);
    node.rotate();
    client.pod("shop", "web-0", None).unwrap();
    let statuses: Vec<_> = node.api.requests().iter().map(|r| r.status).collect();
    assert_eq!(statuses, [401, 200]);
}

#[test]
fn ca_bundle_is_reread_once() {
    let node = Node::new();
    let mut client = node.client(Duration::from_secs(5)).unwrap();
    node.api
        .use_certificate(&node.pki.second.server(), node.pki.second.pem());
    node.write("ca.crt", node.pki.second.pem());
    client.pod("shop", "web-0", None).unwrap();
}

#[test]
fn unchanged_rejected_token_is_sent_once() {
    let node = Node::new();
    node.api
        .refuse_token(&fs::read_to_string(node.path("token")).unwrap());
    let error = node.ask().unwrap_err();
    assert_eq!(error.class, Class::Unauthorized, "{error}");
    assert_eq!(node.api.requests().len(), 1, "no loop on 401");
}

#[test]
fn echoed_token_is_removed_from_messages() {
    use evergreen_test_support::api::Answer;
    let node = Node::new();
    let token = node.rotate();
    for status in [400, 401, 403, 404, 502] {
        node.api.clear_answers();
        node.api.set_answer(
            "GET",
            POD,
            Answer::text(status, &format!("you sent Bearer {token} to us")),
        );
        let error = node
            .ask_within(Duration::from_millis(300))
            .unwrap_err()
            .to_string();
        assert!(!error.contains(&token[token.len() - 20..]), "{status}: {error}");
    }
}
