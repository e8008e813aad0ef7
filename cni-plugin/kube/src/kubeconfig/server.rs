//! The URL of the API server.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

/// A checked `server` field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    tls: bool,
    host: String,
    port: u16,
    path: String,
}

impl Server {
    /// Returns true for `https`.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Returns the host: a name, or an address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// A URL without a trailing slash.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        let (port, path) = (self.port, &self.path);
        match self.host.as_str() {
            address if address.contains(':') => write!(f, "{scheme}://[{address}]:{port}{path}"),
            host => write!(f, "{scheme}://{host}:{port}{path}"),
        }
    }
}

/// Parses a `server` field. The error quotes the URL, unless it contains a password.
pub(super) fn parse(url: &str) -> Result<Server, String> {
    let url = url.trim();
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        _ => return Err("server is neither an https:// nor an http:// URL".to_owned()),
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err("server contains a user name or password; credentials belong under users".to_owned());
    }
    let wrong = || format!("server {url:?} is not a URL such as https://10.96.0.1:443");
    if path.contains(['?', '#']) || !url.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(wrong());
    }
    let (host, port) = split(authority).ok_or_else(wrong)?;
    let port = match port {
        "" => Some(if tls { 443 } else { 80 }),
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok().filter(|p| *p > 0),
        _ => None,
    };
    let path = path.trim_end_matches('/').to_owned();
    Ok(Server {
        tls,
        host: host.ok_or_else(wrong)?,
        port: port.ok_or_else(wrong)?,
        path,
    })
}

/// Splits host and port; an IPv6 address may lack its brackets.
fn split(authority: &str) -> Option<(Option<String>, &str)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        let port = port
            .strip_prefix(':')
            .or(if port.is_empty() { Some("") } else { None })?;
        return Some((host.parse::<Ipv6Addr>().ok().map(|a| a.to_string()), port));
    }
    let (host, port) = match authority.rsplit_once(':') {
        // Several colons without brackets: the last one separates a port if an address is before it.
        Some((host, port)) if host.contains(':') => match host.parse::<Ipv6Addr>() {
            Ok(_) => (host, port),
            Err(_) => (authority, ""),
        },
        Some((host, port)) => (host, port),
        None => (authority, ""),
    };
    Some((name_or_address(host), port))
}

fn name_or_address(host: &str) -> Option<String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let name = !host.is_empty()
        && host.len() <= 253
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    name.then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_brackets_and_path_are_optional() {
        for (written, meant) in [
            ("https://10.96.0.1:443", "https://10.96.0.1:443"),
            ("https://10.96.0.1", "https://10.96.0.1:443"),
            ("https://[::1]:6443", "https://[::1]:6443"),
            ("https://[fd00::1]", "https://[fd00::1]:443"),
            ("https://fd00::1:6443", "https://[fd00::1]:6443"),
            ("https://fd00:10:96::1:443/", "https://[fd00:10:96::1]:443"),
            ("https://fd00::1:abcd", "https://[fd00::1]:abcd"),
            ("HTTPS://API.Example.org:6443/", "https://api.example.org:6443"),
            ("10.96.0.1:6443", "https://10.96.0.1:6443"),
            ("http://localhost:8080", "http://localhost:8080"),
            (
                "https://rancher.example/k8s/clusters/c-1/",
                "https://rancher.example:443/k8s/clusters/c-1",
            ),
        ] {
            match parse(written) {
                Ok(server) => assert_eq!(server.to_string(), meant, "{written}"),
                Err(error) => assert!(meant.ends_with("abcd"), "{written}: {error}"),
            }
        }
    }

    #[test]
    fn invalid_servers_are_rejected_without_their_password() {
        for url in [
            "",
            "https://",
            "ftp://x",
            "https://a b",
            "https://x:0",
            "https://x/ü",
            "https://x/a b",
            "https://x:70000",
            "https://x:1y",
            "https://[::1",
            "https://x?y",
            "https://[10.0.0.1]:1",
            "https://a:b:c",
        ] {
            assert!(parse(url).is_err(), "{url:?}");
        }
        let error = parse("https://admin:hunter2@x").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
