//! The only door to the API server.
//!
//! [`Client::open`] reads the kubeconfig and every file it names, in this call and for this call only; nothing is
//! cached between calls, so a rotation is never a special case. What can still go wrong in between (a token replaced
//! between our read and the server's answer) is met inside the call: see [`client`].

mod ask;
pub mod certificate;
pub mod claims;
pub mod client;
pub mod clock;
mod credentials;
pub mod deadline;
mod error;
mod exec;
mod failure;
pub mod file;
pub mod kubeconfig;
pub mod log;
mod object;
pub mod pod;
pub mod process;
mod resolver;
mod retry;
pub mod review;
pub mod source;
mod status;
mod sys;
mod tls;
pub mod trust;

pub use self::{
    client::{Client, chance},
    error::{Class, Error},
    kubeconfig::Kubeconfig,
    pod::{Namespace, Pod},
    source::{Secret, Source},
};
