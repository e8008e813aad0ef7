//! Black-box tests of the installer: a node's directories before and after.
#![allow(clippy::unwrap_used, reason = "a test fails at the first unexpected value")]

/// A node with an API server that knows the pod's token and its DaemonSet.
mod cluster;
/// A node's directories, a neighbour's network, and an installer that runs on them.
mod node;

/// Our entry in the network that the runtime uses.
mod conflist {
    /// A running installer while other programs change the node.
    mod changes;
    /// A neighbour that writes between our read of its network and our change of it.
    mod concurrent_writes;
    /// Conflists of real neighbours, before and after, as files.
    mod fixtures;
    /// Changes behind a symlink whose place one of our files has taken.
    mod followed_links;
    /// Networks that are symlinks to read-only places, as node images make them.
    pub(crate) mod links;
}

/// Token, CA bundle and kubeconfig on the node.
mod credentials {
    /// A copied token that must be followed although nothing else changes.
    mod copied_token;
    /// The three files: content, modes, damage.
    mod files;
    /// A token of the plugin's own: minted, renewed, and what it falls back to.
    mod minted_token;
}

/// What the installer tells people and machines.
mod health {
    /// `evergreen-install check`.
    mod check;
    /// `--help` and the command line.
    mod help;
    /// CPU, wake-ups and log lines: idle, in a burst of events, beside a rewriting neighbour.
    mod load;
    /// `/livez`, `/readyz` and `/metrics`.
    mod status;
}

/// The repair controller.
mod repair {
    /// Pods whose validator found no redirection.
    pub(crate) mod controller;
    /// Pods that libcni's records show to run without rules.
    mod records;
}

/// Bad input and crashes.
mod robustness {
    /// Unusable settings, templates and neighbours' files.
    mod bad_input;
    /// The installer killed at every system call that changes the node.
    mod crash;
    /// Defects that other installers have had.
    mod defects;
}

/// The end of an installation.
mod uninstall {
    /// `evergreen-install uninstall`.
    mod removal;
    /// SIGTERM: the end of the installation, or of this installer only.
    pub(crate) mod shutdown;
    /// SIGTERM when the API server no longer knows the pod's token.
    mod shutdown_tokens;
    /// Two installers on one node: which of them acts.
    mod two_installers;
}
