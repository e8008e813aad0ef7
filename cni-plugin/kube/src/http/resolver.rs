//! Resolves the host of a URL within the time that is left.

use std::{
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::mpsc,
    thread,
};

use ureq::{
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

use crate::sys;

/// Resolves names on a thread, because `getaddrinfo` has no timeout: on a timeout the thread is left behind and ends with
/// the process. An IP address, the usual host of a kubeconfig, needs no lookup.
#[derive(Debug)]
pub(super) struct TimedResolver;

impl Resolver for TimedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let default = if uri.scheme_str() == Some("http") { 80 } else { 443 };
        let port = uri.port_u16().unwrap_or(default);
        let mut addresses = self.empty();
        if let Ok(address) = host.parse::<IpAddr>() {
            addresses.push(SocketAddr::new(address, port));
            return Ok(addresses);
        }
        sys::use_only_files_and_dns();
        let (sender, receiver) = mpsc::sync_channel(1);
        thread::Builder::new().name("lookup".to_owned()).spawn(move || {
            let _ = sender.send((host.as_str(), port).to_socket_addrs());
        })?;
        let found = receiver
            .recv_timeout(*timeout.after)
            .map_err(|_| ureq::Error::Timeout(timeout.reason))??;
        // The capacity of the array.
        for address in found.take(16) {
            addresses.push(address);
        }
        if addresses.is_empty() {
            Err(ureq::Error::HostNotFound)
        } else {
            Ok(addresses)
        }
    }
}
