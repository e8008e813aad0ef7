//! Ports, subnets and address families, as people write them and as the kernel needs them.
//!
//! A wing of its own below all others: the netconf is written in these values, annotations are, rules are made of them and
//! a namespace is asked for its families.

pub mod cidr;
pub mod ports;
