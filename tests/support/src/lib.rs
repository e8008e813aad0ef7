//! What the tests of both programs stand on. Nothing here is part of the product.
//!
//! - [`netns`]: network namespaces of the test's own, sockets inside them, the kernel's ruleset read back
//! - [`api`]: a small TLS server that answers as a Kubernetes API server does, with certificates from [`pki`]
//! - [`kubelet`]: a projected volume as the kubelet writes it, rotation included
//! - [`run`]: our binaries started as a runtime starts them

pub mod api;
pub mod kubelet;
pub mod netns;
pub mod pki;
pub mod run;
