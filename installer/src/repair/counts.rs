//! What is counted, for whoever asks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::health::serve::Answer;

/// Since the start, but for the gauge.
#[derive(Debug, Default)]
pub struct Counts {
    /// Pods deleted or evicted.
    pub deleted: AtomicU64,
    /// Requests to the API server that failed.
    pub failed: AtomicU64,
    /// Pods that run without rules, at the last look.
    pub without_rules: AtomicU64,
    /// The node's pods have been listed once.
    pub listed: AtomicBool,
}

impl Counts {
    /// The answer to a path.
    pub fn answer(&self, path: &str) -> Option<Answer> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Some(match path {
            "/live" | "/livez" => Answer::ok("ok\n"),
            "/ready" | "/readyz" if self.listed.load(Ordering::Relaxed) => Answer::ok("ok\n"),
            "/ready" | "/readyz" => Answer::unavailable("the node's pods could not be listed yet\n"),
            "/metrics" => Answer::ok(format!(
                "# HELP linkerd_cni_repair_controller_deleted_total Pods deleted because they had started without rules\n\
                 # TYPE linkerd_cni_repair_controller_deleted_total counter\n\
                 linkerd_cni_repair_controller_deleted_total {}\n\
                 # HELP linkerd_cni_repair_controller_failed_total Requests to the API server that failed\n\
                 # TYPE linkerd_cni_repair_controller_failed_total counter\n\
                 linkerd_cni_repair_controller_failed_total {}\n\
                 # HELP linkerd_cni_repair_controller_without_rules Meshed pods that run in a sandbox made without our entry\n\
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
