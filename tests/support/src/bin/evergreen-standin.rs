//! The small API server as a process of its own, for scripts: `evergreen-standin ADDRESS CERTIFICATE KEY CLIENT-CA
//! ADMIN-CERTIFICATE`, all files PEM. It serves until its stdin ends; each line of stdin is an order:
//!
//! - `certificate CERTIFICATE KEY`: what new connections get from now on
//! - `rotate-key`: sign tokens with a new key; those of the old ones stay good
//! - `forget-old-keys`: refuse tokens of all keys but the present one

use std::{fs, io, net::SocketAddr};

use anyhow::{Context, Result, bail, ensure};
use evergreen_test_support::{api::Api, pki::Pair};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, certificate, key, client_ca, admin] = &arguments[..] else {
        bail!("usage: evergreen-standin ADDRESS CERTIFICATE KEY CLIENT-CA ADMIN-CERTIFICATE");
    };
    let address: SocketAddr = address
        .parse()
        .with_context(|| format!("not an address: {address}"))?;
    let client_ca = read(client_ca)?;
    let api = Api::start_at(address, &pair(certificate, key)?, &client_ca);
    let admin = Pair {
        certificate: read(admin)?,
        key: String::new(),
    };
    api.accept_certificate(&admin, "admin");
    for order in io::stdin().lines() {
        let order = order?;
        match order.split(' ').collect::<Vec<_>>()[..] {
            ["certificate", certificate, key] => api.use_certificate(&pair(certificate, key)?, &client_ca),
            ["rotate-key"] => api.rotate_signing_key(),
            ["forget-old-keys"] => api.forget_old_keys(),
            _ => bail!("not an order: {order}"),
        }
    }
    Ok(())
}

fn pair(certificate: &str, key: &str) -> Result<Pair> {
    let pair = Pair {
        certificate: read(certificate)?,
        key: read(key)?,
    };
    ensure!(pair.key.contains("PRIVATE KEY"), "no key in {key}");
    Ok(pair)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {path}"))
}
