//! Metrics and probes of the repair controller.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::health::serve::Answer;

/// Counters since the start, and a gauge.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Pods deleted or evicted.
    pub deleted: AtomicU64,
    /// Requests to the API server that failed.
    pub failed: AtomicU64,
    /// Pods that run without rules, in the last reconcile pass.
    pub without_rules: AtomicU64,
    /// True once the node's pods have been listed.
    pub listed: AtomicBool,
}

impl Metrics {
    /// Returns the response to a path; none for an unknown path.
    pub fn answer(&self, path: &str) -> Option<Answer> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Some(match path {
            "/live" | "/livez" => Answer::ok("ok\n"),
            "/ready" | "/readyz" if self.listed.load(Ordering::Relaxed) => Answer::ok("ok\n"),
            "/ready" | "/readyz" => Answer::unavailable("the node's pods have not been listed yet\n"),
            "/metrics" => Answer::ok(format!(
                "# HELP linkerd_cni_repair_controller_deleted_total Pods deleted because they had started without rules\n\
                 # TYPE linkerd_cni_repair_controller_deleted_total counter\n\
                 linkerd_cni_repair_controller_deleted_total {}\n\
                 # HELP linkerd_cni_repair_controller_failed_total Requests to the API server that failed\n\
                 # TYPE linkerd_cni_repair_controller_failed_total counter\n\
                 linkerd_cni_repair_controller_failed_total {}\n\
                 # HELP linkerd_cni_repair_controller_without_rules Meshed pods that run in a sandbox created without our entry\n\
                 # TYPE linkerd_cni_repair_controller_without_rules gauge\n\
                 linkerd_cni_repair_controller_without_rules {}\n",
                count(&self.deleted),
                count(&self.failed),
                count(&self.without_rules)
            )),
            _ => return None,
        })
    }
}
