//! The API server as the installer's pod reaches it: with the pod's own token, or with what lies on the node.

use std::{path::Path, time::Duration};

use evergreen_kube::{
    Client, Error, Kubeconfig, Source,
    deadline::Deadline,
    log::{Component, Level, Log},
};

use crate::cli::config::Server;

/// What one question may take. Nothing waits for it but the thread that asks.
pub const ASKING_TAKES: Duration = Duration::from_secs(5);

/// A client with this pod's own token, as the kubelet has it now.
pub fn as_pod(server: &Server, deadline: Deadline) -> Result<Client, Error> {
    with_token(
        server,
        Source::File(server.token_file.clone()),
        &server.ca_file,
        deadline,
    )
}

/// A client with another token and a CA bundle.
pub fn with_token(server: &Server, token: Source, ca: &Path, deadline: Deadline) -> Result<Client, Error> {
    let kubeconfig = Kubeconfig::of(&server.url, Source::File(ca.to_path_buf()), token)?;
    // What it has to say is in its answer, which is said once; this is asked again and again.
    Client::with(kubeconfig, deadline, Log::new(Component::Installer, Level::Off))
}
