//! Black-box tests of the plugin: environment and stdin in; one JSON document, an exit code and the kernel's rules out.
#![allow(clippy::unwrap_used, reason = "a test fails at the first unexpected value")]

/// A node's files as the installer writes them, and the fake API server they point to.
mod node;

/// The CNI specification: commands, versions, replies, and chains with other plugins.
mod protocol {
    /// Each command in chains with Debian's plugins, driven by the reference library.
    mod chains;
    /// The reference library's own cases for every command and version.
    mod conformance;
    /// Replies that cannot be written, and messages that must name their cause.
    mod replies;
}

/// Tokens, certificates and the kubeconfig that points to them.
mod credentials {
    /// Exec credential plugins: run on every call and time-limited.
    pub(crate) mod exec;
    /// Kubeconfig forms that lead to the API server, and errors that name the file.
    mod kubeconfig;
    /// Rotation and damage of tokens, client certificates and authorities.
    mod tokens;
}

/// The request for the pod: answers, outages, proxies, name resolution.
mod api {
    /// Every answer to `get pod`: its error class, its message, and whether annotations decide.
    mod answers;
    /// Name resolution without loading the host's NSS modules.
    mod name_lookup;
    /// API servers that are slow, down, behind or elsewhere: the deadline and the retries.
    mod outages;
    /// The kubeconfig's `proxy-url`: HTTP, HTTPS and SOCKS proxies.
    mod proxy;
}

/// Decisions made without the API server.
mod decision {
    /// CHECK during an outage, from the annotations and the rules' comments.
    mod check_in_outage;
    /// Optional answers that are missing, and a damaged kubeconfig: ADD still programs the pod.
    mod fallback;
}

/// From a redirect to rules in the kernel, and back.
mod rules {
    /// Netconf and pod in, `nft list ruleset` out, compared with `tests/fixtures/rulesets`.
    mod fixtures;
    /// The iptables fallback with the node's real programs.
    pub(crate) mod iptables;
    /// iptables programs that fail, hang or wait for a lock.
    mod iptables_failures;
    /// A kernel whose nf_tables lacks `nat` or `redir`: ADD falls back, later calls find the rules.
    mod missing_features;
    /// The netlink encoding against a real kernel, with `nft` as the second opinion.
    pub(crate) mod nft;
    /// A kernel without nf_tables: the iptables variant that works there.
    mod no_nf_tables;
    /// The ruleset as a value: built from a redirect, compared, printed.
    pub(crate) mod ruleset;
}

/// What the rules do to packets in real network namespaces.
mod netns {
    /// Real connections compared with a model of linkerd-cni.
    mod packets;
    /// One connection each way and family, also beside linkerd-cni's rules.
    pub(crate) mod redirect;
}

/// Hostile input, damage, kills and load.
mod robustness {
    /// A hundred pods started and removed at once.
    mod burst;
    /// Damaged kubeconfigs, bundles and tokens are errors, not panics.
    pub(crate) mod damaged_files;
    /// Thousands of variants of good input, each answered by one document in time.
    mod fuzz;
    /// Hostile netconfs, pods and runtimes, each with its stated outcome.
    mod hostile_input;
    /// ADD killed at each of its system calls.
    mod kill;
}
