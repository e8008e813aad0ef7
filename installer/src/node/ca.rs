//! The CA bundle that goes to the node. Pure: bytes in, bytes out.
//!
//! One source is taken as it is. Two are joined, certificate by certificate: a changed source then replaces its own old
//! certificates and no others, none stands twice, and what has ended goes.

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use evergreen_kube::{bundle::Bundle, certificate::Certificate, clock};
use ring::digest::{SHA256, digest};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// What is to be written, and how many blocks of the sources were no certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// PEM.
    pub pem: Vec<u8>,
    /// Blocks that could not be read.
    pub skipped: usize,
}

/// The bundle for the node. `now` in seconds since 1970.
pub fn wanted(mounted: Vec<u8>, extra: Option<&[u8]>, now: i64) -> Wanted {
    let first = Bundle::parse(&mounted);
    let Some(extra) = extra else {
        return Wanted {
            pem: mounted,
            skipped: first.skipped,
        };
    };
    let second = Bundle::parse(extra);
    let skipped = first.skipped + second.skipped;
    let mut pem = String::new();
    let mut seen: Vec<&[u8]> = Vec::new();
    for der in first.certificates.iter().chain(&second.certificates) {
        let ended = Certificate::read(der).is_some_and(|c| c.not_after < now);
        if !ended && !seen.contains(&der.as_ref()) {
            seen.push(der);
            write_block(&mut pem, der);
        }
    }
    Wanted {
        pem: pem.into_bytes(),
        skipped,
    }
}

/// True when a certificate can be read in it.
pub fn is_good(pem: &[u8]) -> bool {
    !Bundle::parse(pem).certificates.is_empty()
}

/// True when it looks like a bundle at all.
pub fn looks_like_one(pem: &[u8]) -> bool {
    pem.windows(BEGIN.len()).any(|w| w == BEGIN.as_bytes())
}

/// When the first of its certificates ends, in seconds since 1970.
pub fn ends(pem: &[u8]) -> Option<i64> {
    let certificates = Bundle::parse(pem).certificates;
    certificates
        .iter()
        .filter_map(|der| Certificate::read(der))
        .map(|c| c.not_after)
        .min()
}

/// A certificate that two bundles do not share.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// `added` or `removed`.
    pub action: &'static str,
    /// Its common name.
    pub subject: String,
    /// When it expires, RFC 3339.
    pub expires: String,
    /// Its SHA-256 fingerprint, in hex.
    pub sha256: String,
}

/// Returns the certificates added and removed between two bundles.
pub fn differences(old: &[u8], new: &[u8]) -> Vec<Change> {
    let (old, new) = (Bundle::parse(old).certificates, Bundle::parse(new).certificates);
    let added = new.iter().filter(|der| !old.contains(der));
    let removed = old.iter().filter(|der| !new.contains(der));
    added
        .map(|der| Change::new("added", der))
        .chain(removed.map(|der| Change::new("removed", der)))
        .collect()
}

impl Change {
    fn new(action: &'static str, der: &[u8]) -> Self {
        let (subject, expires) = Certificate::read(der).map_or_else(
            || ("unreadable certificate".to_owned(), "unknown".to_owned()),
            |c| (c.subject, clock::rfc3339(c.not_after)),
        );
        Self {
            action,
            subject,
            expires,
            sha256: digest(&SHA256, der)
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        }
    }
}

/// Lines of 64, as RFC 7468 has them; a newline after the last, so that another block may follow.
fn write_block(pem: &mut String, der: &[u8]) {
    let text = STANDARD.encode(der);
    let _ = writeln!(pem, "{BEGIN}");
    for line in text.as_bytes().chunks(64) {
        let _ = writeln!(pem, "{}", String::from_utf8_lossy(line));
    }
    let _ = writeln!(pem, "{END}");
}

#[cfg(test)]
mod tests {
    use evergreen_test_support::pki::{Authority, EXPIRED};

    use super::*;

    const NOW: i64 = 1_796_000_000;

    #[test]
    fn one_source_is_taken_as_it_is_and_its_bad_blocks_are_counted() {
        let good = Authority::new("a");
        let pem = format!("# ours\n{BEGIN}\nAAAA\n{END}\n{}", good.pem());
        let wanted = wanted(pem.clone().into_bytes(), None, NOW);
        assert_eq!((wanted.pem, wanted.skipped), (pem.into_bytes(), 1));
    }

    #[test]
    fn two_sources_are_joined_without_duplicates_and_without_what_has_ended() {
        let (a, b, old) = (
            Authority::new("a"),
            Authority::new("b"),
            Authority::within("old", EXPIRED),
        );
        let mounted = format!("{}{}", a.pem(), old.pem());
        let extra = format!("{}{}", b.pem(), a.pem().trim_end());
        let joined = wanted(mounted.into_bytes(), Some(extra.as_bytes()), NOW).pem;
        let blocks = |pem: &str| pem.split_whitespace().collect::<String>();
        assert_eq!(
            blocks(&String::from_utf8(joined.clone()).unwrap()),
            blocks(&format!("{}{}", a.pem(), b.pem()))
        );
        assert_eq!(Bundle::parse(&joined).certificates.len(), 2);
        // The second source moves on: its old certificate goes, ours stays where it was.
        let c = Authority::new("c");
        let moved = wanted(a.pem().as_bytes().to_vec(), Some(c.pem().as_bytes()), NOW).pem;
        let lines = differences(&joined, &moved);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].action == "added"
                && lines[0].subject == "c"
                && lines[1].action == "removed"
                && lines[1].subject == "b",
            "{lines:?}"
        );
        assert!(lines[0].sha256.len() == 64, "{lines:?}");
    }

    #[test]
    fn nothing_good_is_told_from_something_good() {
        let good = Authority::new("a");
        assert!(is_good(good.pem().as_bytes()) && ends(good.pem().as_bytes()).is_some());
        for bad in [
            "",
            "text",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            assert!(!is_good(bad.as_bytes()), "{bad}");
        }
    }
}
