//! A checked kubeconfig: nothing in it contradicts itself.

use std::path::PathBuf;

use super::server::Server;
use crate::source::{Secret, Source};

/// How to reach the API server and how to authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The API server's URL.
    pub server: Server,
    /// How its certificate is verified.
    pub trust: Trust,
    /// The name its certificate must contain, if not the host of the URL.
    pub tls_server_name: Option<String>,
    /// `http`, `https` or `socks5` URL of a proxy; may contain a password.
    pub proxy: Option<Secret>,
    /// Our credentials.
    pub identity: Identity,
    /// `Impersonate-*` headers, in order.
    pub impersonate: Vec<(String, String)>,
}

/// How the server's certificate is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// By the CAs of this bundle.
    Bundle(Source),
    /// By the system CA bundle.
    System,
    /// Not at all: `insecure-skip-tls-verify`.
    Insecure,
}

/// Our credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// A bearer token.
    pub token: Option<Token>,
    /// A client certificate and its key.
    pub certificate: Option<ClientCertificate>,
    /// A program that returns one of the two; only if both are absent.
    pub exec: Option<Exec>,
}

/// A bearer token, or its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// In the kubeconfig.
    Inline(Secret),
    /// In a file; the kubeconfig's own token is used if the file is unusable.
    File(Source, Option<Secret>),
}

/// A client certificate and its key; both may be in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The chain, PEM.
    pub chain: Source,
    /// The key, PEM.
    pub key: Source,
}

/// The `exec` block: how to run a credential plugin. It needs no terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// The API version of the exchange.
    pub version: ExecVersion,
    /// The program: a path, or a name to look up in `PATH`.
    pub command: PathBuf,
    /// The arguments.
    pub args: Vec<String>,
    /// Environment variables, added to ours.
    pub env: Vec<(String, Secret)>,
    /// `provideClusterInfo`: the program gets the cluster's server and CA.
    pub wants_cluster: bool,
    /// The cluster extension that it gets then, too.
    pub cluster_config: Option<serde_json::Value>,
    /// `installHint`: shown if the program is missing.
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
    /// Returns the value of `apiVersion`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "client.authentication.k8s.io/v1",
            Self::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }
}
