//! Certificates made for one test: authorities, what they sign for servers and clients, expired ones included.
//!
//! ECDSA P-256 throughout, because a key of it is made in microseconds.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// What the API server of a cluster is called, as its certificate says it.
pub const SERVER_NAMES: [&str; 5] = [
    "127.0.0.1",
    "::1",
    "localhost",
    "kubernetes",
    "kubernetes.default.svc",
];

/// A cluster's authority and a second one, for a rotation or for what must not be trusted.
#[derive(Debug)]
pub struct Pki {
    /// Signs the server from the start.
    pub ca: Authority,
    /// The next one, or a stranger.
    pub second: Authority,
}

/// A certificate authority.
pub struct Authority {
    pem: String,
    der: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both as PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key, PKCS#8.
    pub key: String,
}

/// From when to when a certificate holds, as years.
#[derive(Debug, Clone, Copy)]
pub struct Years(pub i32, pub i32);

/// Holds now and for as long as anybody may run these tests.
pub const CURRENT: Years = Years(2020, 2120);
/// Ended long ago.
pub const EXPIRED: Years = Years(2001, 2002);

impl Pki {
    /// Two authorities, both current.
    pub fn new() -> Self {
        Self {
            ca: Authority::new("evergreen-test-ca-1"),
            second: Authority::new("evergreen-test-ca-2"),
        }
    }
}

impl Default for Pki {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A current authority of this common name.
    pub fn new(name: &str) -> Self {
        Self::within(name, CURRENT)
    }

    /// An authority that holds within these years.
    pub fn within(name: &str, years: Years) -> Self {
        let mut params = params(name, &[], years);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("make a key");
        let certificate = params.self_signed(&key).expect("sign an authority by itself");
        Self {
            pem: certificate.pem(),
            der: certificate.der().to_vec(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The authority's certificate, one PEM block with a newline at its end.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The same as DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// A current certificate for an API server under [`SERVER_NAMES`].
    pub fn server(&self) -> Pair {
        self.server_for(&SERVER_NAMES, CURRENT)
    }

    /// A server's certificate for these names and addresses.
    pub fn server_for(&self, names: &[&str], years: Years) -> Pair {
        let mut params = params("kube-apiserver", names, years);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A certificate that a server signed by itself and that calls itself an authority, as `openssl req -x509` makes
    /// them.
    pub fn server_of_its_own(address: &str, years: Years) -> Pair {
        let mut params = params("self-made", &[address], years);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("make a key");
        let certificate = params.self_signed(&key).expect("sign a certificate by itself");
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// A current client certificate: a user, and the groups it is in.
    pub fn client(&self, user: &str, groups: &[&str]) -> Pair {
        self.client_within(user, groups, CURRENT)
    }

    /// A client certificate that holds within these years.
    pub fn client_within(&self, user: &str, groups: &[&str], years: Years) -> Pair {
        let mut params = params(user, &[], years);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("make a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("sign a certificate");
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

fn params(name: &str, names: &[&str], years: Years) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).expect("names that are names or addresses");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(years.0, 1, 1);
    params.not_after = date_time_ymd(years.1, 1, 1);
    params
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.pem)
    }
}
