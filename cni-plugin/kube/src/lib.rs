//! A blocking Kubernetes client for short-lived programs, and what both programs need around it: a log, a clock, a
//! deadline, a child process, a bounded file reader.
//!
//! [`Client::open`] reads the kubeconfig and every file it names. Nothing is cached between calls, so a rotated
//! credential needs no special case. A credential that is replaced between our read and the server's answer is read
//! again within the call: see [`client`].
//!
//! Imports go down this list only: `client`, `http`, `tls`, `credentials`, `kubeconfig`, `x509`, `objects`, then the
//! single files.

pub mod client;
mod credentials;
mod http;
pub mod kubeconfig;
mod objects;
mod tls;
mod x509;

pub mod clock;
pub mod deadline;
mod error;
pub mod file;
pub mod log;
pub mod process;
mod quote;
mod source;
mod sys;

pub use self::{
    client::{Client, Wait, chance},
    credentials::{claims, token},
    error::{Class, Error},
    http::request::{Request, segment},
    kubeconfig::Kubeconfig,
    objects::{
        object,
        pod::{self, Namespace, Pod},
    },
    source::{Secret, Source},
    x509::{bundle, certificate},
};
