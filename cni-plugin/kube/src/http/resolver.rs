//! From the host of a URL to addresses, within the time that is left.

use std::{
    fmt,
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

/// An address is taken as it is, which is what a kubeconfig usually has. A name is looked up on a thread of its own,
/// because `getaddrinfo` knows no deadline; the thread is left behind when it takes too long, and ends with the process.
pub(super) struct Names;

impl Resolver for Names {
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
        sys::look_up_names_in_files_and_dns_only();
        let (tell, told) = mpsc::sync_channel(1);
        thread::Builder::new().name("lookup".to_owned()).spawn(move || {
            let _ = tell.send((host.as_str(), port).to_socket_addrs());
        })?;
        let found = told
            .recv_timeout(*timeout.after)
            .map_err(|_| ureq::Error::Timeout(timeout.reason))??;
        // As many as the array takes.
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

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Names")
    }
}
