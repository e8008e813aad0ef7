//! The keys of a log line. The reference in the documentation is this table.

/// Every key of a line and its meaning. The first four are in each line, in this order.
pub const KEYS: &[(&str, &str)] = &[
    (
        "time",
        "when the line was written, RFC 3339 in UTC with milliseconds",
    ),
    ("level", "debug, info, warn or error"),
    ("component", "plugin, installer or repair"),
    ("msg", "what happened; fixed text that an alert can match"),
    ("action", "what was done"),
    ("attempts", "how many requests were sent"),
    (
        "backend",
        "what programs the rules: nf_tables, iptables-nft or iptables-legacy",
    ),
    ("class", "class of an API error, such as Unauthorized or Timeout"),
    ("command", "CNI command: ADD, CHECK, DEL, STATUS"),
    ("container", "container of the pod"),
    ("controller", "controller of the pod, kind/name"),
    ("count", "how many"),
    ("delay", "pause before the next attempt"),
    ("error", "cause of a failure and what to do about it"),
    ("evidence", "what a decision rests on"),
    ("expires", "when a token or certificate expires, RFC 3339"),
    ("file", "file on the node"),
    ("interface", "network interface of the pod"),
    ("name", "name of the thing when no other key fits"),
    ("namespace", "Kubernetes namespace"),
    ("network", "conflist the line is about"),
    ("node", "Kubernetes node"),
    ("operation", "what was being done, such as token or conflist"),
    ("path", "path on the node or in a URL"),
    ("pod", "pod, namespace/name"),
    ("purpose", "what an API request is for"),
    ("reason", "why it was done"),
    ("redirect", "what the rules redirect, in short"),
    ("removed", "whether anything was there to remove"),
    ("says", "a line quoted from another program or server"),
    (
        "source",
        "where a credential comes from: a file, the kubeconfig, an exec plugin",
    ),
    ("state", "state of the thing"),
    ("subject", "identity of a token or certificate"),
    ("uid", "Kubernetes UID"),
    ("url", "URL of the API server or of a request"),
    ("value", "value that was found"),
];

/// How many of [`KEYS`] are in every line.
pub(super) const FIXED: usize = 4;
