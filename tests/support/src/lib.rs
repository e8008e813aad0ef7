//! Fixtures and tools for the tests of both programs. Nothing here is part of the product.
//!
//! - [`netns`]: network namespaces of the test's own, sockets inside them, the kernel's ruleset read back
//! - [`api`]: a small TLS server that answers as a Kubernetes API server does, with certificates from [`pki`]
//! - [`kubelet`]: a projected volume as the kubelet writes it, rotation included
//! - [`budget`]: time budgets, scaled by `EVERGREEN_TEST_TIME_FACTOR`
//! - [`http`]: one HTTP request without TLS
//! - [`strace`]: strace in front of a program
//! - [`run`]: our binaries started as a runtime starts them

pub mod api;
pub mod budget;
pub mod http;
pub mod kubelet;
pub mod netns;
pub mod pki;
pub mod run;
pub mod strace;
