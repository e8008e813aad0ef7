//! Clients of the API server: with this pod's own token, or with the credential on the node.

use std::{path::Path, time::Duration};

use evergreen_kube::{
    Client, Error, Kubeconfig, Source,
    deadline::Deadline,
    log::{Component, Level, Log},
};

use crate::cli::config::Server;

/// The usual limit of one request. Only the thread that sends it waits.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns a client with this pod's own token, as the kubelet has written it last.
pub fn as_pod(server: &Server, deadline: Deadline) -> Result<Client, Error> {
    let token = Source::File(server.token_file.clone());
    with_token(server, token, &server.ca_file, deadline)
}

/// Returns a client with another token and CA bundle.
pub fn with_token(server: &Server, token: Source, ca: &Path, deadline: Deadline) -> Result<Client, Error> {
    let kubeconfig = Kubeconfig::of(&server.url, Source::File(ca.to_path_buf()), token)?;
    // It logs nothing: its error is reported once, by the caller, however often it is asked again.
    Client::with(kubeconfig, deadline, Log::new(Component::Installer, Level::Off))
}
