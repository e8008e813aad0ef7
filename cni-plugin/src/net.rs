//! Ports, subnets and address families, as people write them and as the kernel needs them.
//!
//! A wing below all others, because each of them uses these values: netconf and annotations contain them, rules consist of
//! them, and a namespace has addresses of a family.

pub mod cidr;
pub mod ports;
