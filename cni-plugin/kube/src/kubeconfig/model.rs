//! A checked kubeconfig: nothing in it contradicts itself.

use std::path::PathBuf;

use super::server::Server;
use crate::source::{Secret, Source};

/// How to reach and to convince the API server. Checked: nothing in it contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// Where it is.
    pub server: Server,
    /// Whom to believe that it is the right one.
    pub trust: Trust,
    /// The name its certificate must carry, when that is not the host of its URL.
    pub tls_server_name: Option<String>,
    /// `http`, `https` or `socks5` URL of a proxy; may hold a password.
    pub proxy: Option<Secret>,
    /// What we come with.
    pub identity: Identity,
    /// `Impersonate-*` headers, in order.
    pub impersonate: Vec<(String, String)>,
}

/// Whom to believe that the server is the right one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The authorities of this bundle.
    Bundle(Source),
    /// The authorities the host's own programs trust.
    System,
    /// Any certificate: `insecure-skip-tls-verify`.
    Insecure,
}

/// What we come with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// A bearer token.
    pub token: Option<Token>,
    /// A client certificate and its key.
    pub certificate: Option<ClientCertificate>,
    /// A program that hands out one of the two. Absent when one of them is there.
    pub exec: Option<Exec>,
}

/// A bearer token, or where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// In the kubeconfig.
    Inline(Secret),
    /// In a file; the kubeconfig's own is used when the file cannot be.
    File(Source, Option<Secret>),
}

/// A client certificate and its key. Both may name one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The chain, PEM.
    pub chain: Source,
    /// The key, PEM.
    pub key: Source,
}

/// How to run it. Checked: a version we speak, and nobody is to be asked at a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// The version both sides speak.
    pub version: ExecVersion,
    /// The program: a path, or a bare name to be found in `PATH`.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables added to our environment.
    pub env: Vec<(String, Secret)>,
    /// True when it wants to know which cluster the credential is for.
    pub wants_cluster: bool,
    /// What it is told then, besides server, name and authority.
    pub cluster_config: Option<serde_json::Value>,
    /// What a person is told when the program is not there.
    pub install_hint: Option<String>,
}

/// A version of client.authentication.k8s.io.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecVersion {
    /// `v1`
    V1,
    /// `v1beta1`
    V1Beta1,
}

impl ExecVersion {
    /// As `apiVersion` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "client.authentication.k8s.io/v1",
            Self::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }
}
