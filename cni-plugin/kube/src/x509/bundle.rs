//! A CA bundle in PEM, read block by block, so that a bad block does not invalidate the good ones.
//!
//! As in Go: other kinds of blocks, blocks that do not parse and text around them are skipped, and one good certificate
//! is enough. Unlike in Go, skipped blocks are counted and reported, and two blocks joined on one line
//! (`-----END CERTIFICATE----------BEGIN CERTIFICATE-----`, the result of a careless `cat`) are both read, as is a block
//! after a truncated one. An expired CA still counts, since webpki ignores the dates of a trust anchor; the log reports
//! it.

use std::{fmt::Write, fs, iter, path::Path};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, TrustAnchor},
};

use super::certificate::Certificate;
use crate::error::{Class, Error};

/// The system CA bundle, by distribution.
const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The usable certificates of a bundle.
#[derive(Debug, Clone, Default)]
pub struct Bundle {
    /// The usable certificates, in order, without duplicates.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The number of blocks that are not a readable certificate.
    pub skipped: usize,
    /// The same certificates as trust anchors.
    anchors: Vec<TrustAnchor<'static>>,
}

impl Bundle {
    /// Reads every block of a PEM text.
    pub fn parse(pem: &[u8]) -> Self {
        let pem = pem.strip_prefix(b"\xef\xbb\xbf").unwrap_or(pem);
        let mut bundle = Self::default();
        let mut roots = RootCertStore::empty();
        for block in pieces(pem).flat_map(|mut piece| rustls_pemfile::certs(&mut piece).collect::<Vec<_>>()) {
            match block {
                Ok(der) if bundle.certificates.contains(&der) => {}
                Ok(der) if roots.add(der.clone()).is_ok() => bundle.certificates.push(der),
                _ => bundle.skipped += 1,
            }
        }
        bundle.anchors = roots.roots;
        bundle
    }

    /// Reads a client's own chain, in the order in which the server gets it. It is checked later, together with the key.
    pub(crate) fn parse_chain(pem: &[u8]) -> Vec<CertificateDer<'static>> {
        rustls_pemfile::certs(&mut &*pem).flatten().collect()
    }

    /// Reads the first system CA bundle that exists, and returns its path, too.
    pub(crate) fn system() -> Result<(Vec<u8>, &'static str), Error> {
        let found = SYSTEM_BUNDLES
            .iter()
            .find_map(|path| Some((fs::read(Path::new(path)).ok()?, *path)));
        found.ok_or_else(|| {
            let message = "the kubeconfig has no certificate-authority and this host has no system CA bundle; \
                           set certificate-authority to the cluster's ca.crt";
            Error::new(Class::Trust, message)
        })
    }

    /// Returns the trust anchors, or an error that says what the bundle contains instead.
    pub(crate) fn roots(&self, source: &str) -> Result<RootCertStore, Error> {
        if self.anchors.is_empty() {
            let message = match self.skipped {
                0 => format!(
                    "CA bundle {source} contains no certificate; replace it with the cluster's ca.crt"
                ),
                n => format!(
                    "CA bundle {source} contains no usable certificate ({n} unreadable); replace it with the cluster's ca.crt"
                ),
            };
            return Err(Error::new(Class::Trust, message));
        }
        Ok(RootCertStore {
            roots: self.anchors.clone(),
        })
    }

    /// Returns the number of expired certificates.
    pub(crate) fn expired(&self, now: i64) -> usize {
        let certificates = self.certificates.iter().filter_map(|der| Certificate::read(der));
        certificates.filter(|c| c.not_after < now).count()
    }

    /// Describes the content for a message: `"kubernetes" (expires 2035-01-01T00:00:00Z) and 1 more`.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for (i, der) in self.certificates.iter().take(3).enumerate() {
            let shown =
                Certificate::read(der).map_or("(unreadable certificate)".to_owned(), |c| c.to_string());
            let _ = write!(text, "{}{shown}", if i == 0 { "" } else { ", " });
        }
        if self.certificates.len() > 3 {
            let _ = write!(text, " and {} more", self.certificates.len() - 3);
        }
        if self.skipped > 0 {
            let _ = write!(text, ", {} unreadable", self.skipped);
        }
        text
    }
}

/// Splits the text before each `-----BEGIN`, so that no block can spoil another.
fn pieces(pem: &[u8]) -> impl Iterator<Item = &[u8]> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    let mut rest = pem;
    iter::from_fn(move || {
        let next = rest.windows(BEGIN.len()).skip(1).position(|w| w == BEGIN);
        let (piece, left) = rest.split_at(next.map_or(rest.len(), |at| at + 1));
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use evergreen_test_support::pki::Authority;

    use super::*;

    fn read(pem: &str) -> (usize, usize) {
        let bundle = Bundle::parse(pem.as_bytes());
        (bundle.certificates.len(), bundle.skipped)
    }

    #[test]
    fn good_blocks_survive_bad_neighbours() {
        let (a, b) = (Authority::new("a"), Authority::new("b"));
        let (a, b) = (a.pem(), b.pem());
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let not_base64 = "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (what, pem, good_and_bad) in [
            ("two", format!("{a}{b}"), (2, 0)),
            ("a duplicate", format!("{a}{b}{a}"), (2, 0)),
            (
                "a truncated block first",
                format!("-----BEGIN CERTIFICATE-----\nAAAA\n{a}{b}"),
                (2, 1),
            ),
            ("a bad block first", format!("{bad}{a}"), (1, 1)),
            (
                "a block that is not base64 between",
                format!("{a}{not_base64}{b}"),
                (2, 1),
            ),
            ("a key", format!("{key}{a}"), (1, 0)),
            ("a byte order mark", format!("\u{feff}{a}{b}"), (2, 0)),
            ("glued blocks", format!("{}{b}", a.trim_end()), (2, 0)),
            ("CRLF line ends", format!("{a}{b}").replace('\n', "\r\n"), (2, 0)),
            (
                "text around",
                format!("# the old one\n{a}\n\n# the new one\n{b}the end"),
                (2, 0),
            ),
            ("no final line end", a.trim_end().to_owned(), (1, 0)),
            ("nothing good", format!("{bad}{key}"), (0, 1)),
            ("nothing", "not a bundle".to_owned(), (0, 0)),
        ] {
            assert_eq!(read(&pem), good_and_bad, "{what}");
        }
    }

    #[test]
    fn bundle_without_good_blocks_is_an_error() {
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let error = Bundle::parse(format!("{bad}{bad}").as_bytes())
            .roots("/x/ca.crt")
            .unwrap_err();
        assert_eq!(error.class, Class::Trust);
        assert_eq!(
            error.to_string(),
            "CA bundle /x/ca.crt contains no usable certificate (2 unreadable); replace it with the cluster's ca.crt"
        );
    }
}
