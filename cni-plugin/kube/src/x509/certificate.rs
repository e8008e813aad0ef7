//! Subject, issuer and validity of an X.509 certificate, for messages (RFC 5280, section 4.1).
//!
//! Reads only the DER elements on the way there. It decides nothing about trust, except that a pinned server certificate
//! must be within its dates, which the TLS library checks for chains only.

use std::fmt;

use crate::clock;

/// The parts of a certificate that messages show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The subject's common name, or its organisation when it has none.
    pub subject: String,
    /// The issuer's common name, or its organisation.
    pub issuer: String,
    /// When it becomes valid, in seconds since 1970.
    pub not_before: i64,
    /// When it expires, in seconds since 1970.
    pub not_after: i64,
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0] EXPLICIT`, the version; absent in version 1.
const VERSION: u8 = 0xa0;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.4.10
const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];

impl Certificate {
    /// Reads a DER certificate; `None` if it is not one.
    pub fn read(der: &[u8]) -> Option<Self> {
        let mut outer = Der(der);
        let mut certificate = Der(outer.expect(SEQUENCE)?);
        let mut tbs = Der(certificate.expect(SEQUENCE)?);
        if tbs.tag() == Some(VERSION) {
            tbs.next()?;
        }
        tbs.next()?; // serial number
        tbs.next()?; // signature algorithm
        let issuer = name(tbs.expect(SEQUENCE)?);
        let mut validity = Der(tbs.expect(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
        let subject = name(tbs.expect(SEQUENCE)?);
        Some(Self {
            subject,
            issuer,
            not_before,
            not_after,
        })
    }

    /// Returns true when the time is within its validity.
    pub fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }
}

/// `"kubernetes" (expires 2035-01-01T00:00:00Z)`
impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = clock::rfc3339(self.not_after);
        let word = if self.not_after < clock::now() {
            "expired"
        } else {
            "expires"
        };
        write!(f, "{:?} ({word} {time})", self.subject)
    }
}

/// A sequence of DER elements.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Returns the tag and content of the next element.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // The length itself takes 1 to 4 bytes; no certificate needs more.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// Returns the content of the next element, if it has this tag.
    fn expect(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next()
            .filter(|(tag, _)| *tag == wanted)
            .map(|(_, content)| content)
    }
}

/// Returns the common name in a `Name`, or its organisation, or nothing.
fn name(content: &[u8]) -> String {
    let mut sets = Der(content);
    let mut organisation = None;
    while let Some(set) = sets.expect(SET) {
        let mut attribute = Der(Der(set).expect(SEQUENCE).unwrap_or_default());
        let (Some(id), Some((_, value))) = (attribute.expect(OBJECT_ID), attribute.next()) else {
            continue;
        };
        // Any string type; invalid UTF-8 is replaced, since this is only for messages.
        let text = || String::from_utf8_lossy(value).chars().take(100).collect();
        match id {
            COMMON_NAME => return text(),
            ORGANISATION => organisation = Some(text()),
            _ => {}
        }
    }
    organisation.unwrap_or_default()
}

/// UTCTime (`YYMMDDHHMMSSZ`, years 1950 to 2049) or GeneralizedTime (`YYYYMMDDHHMMSSZ`).
fn time((tag, content): (u8, &[u8])) -> Option<i64> {
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    let digits = |from: usize, to: usize| text.get(from..to).and_then(|t| t.parse::<i64>().ok());
    let (year, at) = match tag {
        UTC_TIME => {
            let year = digits(0, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, 2)
        }
        GENERALIZED_TIME => (digits(0, 4)?, 4),
        _ => return None,
    };
    let part = |i: usize| digits(at + 2 * i, at + 2 * i + 2);
    clock::seconds(year, part(0)?, part(1)?, part(2)?, part(3)?, part(4)?)
}

#[cfg(test)]
mod tests {
    use evergreen_test_support::pki::{Authority, EXPIRED};

    use super::*;

    #[test]
    fn subject_issuer_and_dates_are_read() {
        let ca = Authority::within("the authority", EXPIRED);
        let read = Certificate::read(ca.der()).unwrap();
        assert_eq!(
            (read.subject.as_str(), read.issuer.as_str()),
            ("the authority", "the authority")
        );
        assert_eq!(clock::rfc3339(read.not_before), "2001-01-01T00:00:00Z");
        assert_eq!(
            read.to_string(),
            "\"the authority\" (expired 2002-01-01T00:00:00Z)"
        );
        assert!(!read.is_valid_at(clock::now()));
    }

    #[test]
    fn years_after_2049_are_read() {
        let read = Certificate::read(Authority::new("x").der()).unwrap();
        assert_eq!(clock::rfc3339(read.not_after), "2120-01-01T00:00:00Z");
    }

    #[test]
    fn malformed_certificates_are_rejected_without_panic() {
        let ca = Authority::new("x");
        for length in 0..ca.der().len() {
            assert_eq!(
                Certificate::read(&ca.der()[..length]),
                None,
                "the first {length} bytes"
            );
        }
        for at in 0..ca.der().len() {
            for value in [0x00, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut broken = ca.der().to_vec();
                broken[at] = value;
                let _ = Certificate::read(&broken);
            }
        }
    }
}
