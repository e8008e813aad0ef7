//! Certificates and CA bundles, read to decide whom to trust and to explain failures.

pub mod bundle;
pub mod certificate;
