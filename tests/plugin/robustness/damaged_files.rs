//! Damaged kubeconfigs, bundles and tokens are errors, not panics: a panic in a CNI plugin keeps the pod from starting.

use std::path::Path;

use evergreen_kube::{Kubeconfig, bundle::Bundle, claims::Claims};
use evergreen_test_support::pki::Authority;

const YAML: &str = "
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: 'https://10.96.0.1:443', certificate-authority-data: YWJj}}]
users:
- name: u
  user: &user
    tokenFile: token
    as-user-extra: {a: [b, c]}
    as: \"x\\u00e4\"
contexts:
- name: linkerd-cni-context
  context: {cluster: local, user: u}
current-context: |
  linkerd-cni-context
";

/// Pseudo-random numbers that are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % limit.max(1)
    }
}

/// Passes damaged variants of a text to `each`.
fn damage(text: &[u8], count: usize, mut each: impl FnMut(&[u8])) {
    let mut numbers = Numbers(count as u64);
    for _ in 0..count {
        each(&variant(text, &mut numbers));
    }
}

/// Returns the text truncated, with bytes changed, or with a part repeated or removed.
pub(crate) fn variant(text: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    const ODD: &[u8] = b"\0\t\n\r !\"#%&'*,-.:;<>?@[]`{|}~0\x7f\x80\xc3\xff";
    let mut variant = text.to_vec();
    for _ in 0..=numbers.below(3) {
        let (a, b) = (numbers.below(variant.len()), numbers.below(variant.len()));
        let (from, to) = (a.min(b), a.max(b));
        match numbers.below(4) {
            0 => variant.truncate(to),
            1 if !variant.is_empty() => variant[from] = ODD[numbers.below(ODD.len())],
            2 => drop(variant.drain(from..to)),
            _ => {
                let part = variant[from..to].to_vec();
                variant.splice(from..from, part);
            }
        }
    }
    variant
}

#[test]
fn damaged_kubeconfig_never_panics() {
    let json = r#"{"kind":"Config","clusters":[{"name":"l","cluster":{"server":"https://[::1]:6443","tls-server-name":"x"}}],
        "users":[{"name":"u","user":{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"c","interactiveMode":"Never"}}}],
        "contexts":[{"name":"c","context":{"cluster":"l","user":"u"}}],"current-context":"c"}"#;
    for text in [YAML, json] {
        Kubeconfig::parse(text, Path::new("/x")).expect("the undamaged kubeconfig is valid");
        damage(text.as_bytes(), 4000, |variant| {
            let _ = Kubeconfig::parse(&String::from_utf8_lossy(variant), Path::new("/x"));
        });
    }
}

#[test]
fn damaged_bundle_never_panics() {
    let pem = format!("{}{}", Authority::new("a").pem(), Authority::new("b").pem());
    damage(pem.as_bytes(), 4000, |variant| {
        let _ = Bundle::parse(variant);
    });
}

#[test]
fn damaged_token_never_panics() {
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOlsiYSJdLCJleHAiOjEsImt1YmVybmV0ZXMuaW8iOnsicG9kIjp7Im5hbWUiOiJwIn19fQ.c2ln";
    assert!(Claims::read(token.as_bytes()).is_some());
    damage(token.as_bytes(), 4000, |variant| {
        let _ = Claims::read(variant);
    });
}
