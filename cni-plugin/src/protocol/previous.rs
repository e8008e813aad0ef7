//! `prevResult`: passed on byte for byte. The plugin reads only its version and the families of its addresses.

use std::{borrow::Cow, net::IpAddr, ops::Range};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::version;
use crate::net::cidr::Family;

/// The previous plugin's result.
#[derive(Debug)]
pub struct Previous<'a> {
    raw: &'a RawValue,
    version: Version,
    /// The families of the addresses it reports, ascending, each once.
    pub families: Vec<Family>,
}

/// The `cniVersion` of a result, which the protocol requires.
#[derive(Debug)]
enum Version {
    /// The configuration's version.
    Same,
    Missing,
    /// Null, empty, or another version of the same shape, at this range of the bytes.
    Replace(Range<usize>),
}

// === impl Previous ===

impl<'a> Previous<'a> {
    /// Reads a result for a configuration of this version; the error says what is wrong with it.
    pub fn read(raw: &'a RawValue, version: &str) -> Result<Self, String> {
        // Derived code would accept an array for an object with its fields in order.
        if !raw.get().starts_with('{') {
            return Err("is not an object".into());
        }
        let shape: Shape<'_> = serde_json::from_str(raw.get()).map_err(|e| format!("cannot be read: {e}"))?;
        let modern = shape.ips.into_iter().flatten().filter_map(|ip| ip.address);
        let old = [shape.ip4, shape.ip6]
            .into_iter()
            .flatten()
            .filter_map(|ip| ip.ip);
        let mut families: Vec<Family> = modern.chain(old).filter_map(|address| family(&address)).collect();
        families.sort_unstable();
        families.dedup();
        Ok(Self {
            raw,
            version: Version::of(shape.version, raw, version)?,
            families,
        })
    }

    /// The same bytes, because fields unknown to the plugin must survive. Only the version becomes the configuration's.
    pub fn pass_on(&self, version: &str) -> String {
        let bytes = self.raw.get();
        match &self.version {
            Version::Same => bytes.to_owned(),
            Version::Replace(range) => {
                format!("{}\"{version}\"{}", &bytes[..range.start], &bytes[range.end..])
            }
            Version::Missing => match bytes[1..].trim_start() {
                "}" => format!("{{\"cniVersion\":\"{version}\"}}"),
                rest => format!("{{\"cniVersion\":\"{version}\",{rest}"),
            },
        }
    }
}

// === impl Version ===

impl Version {
    /// Compares the version found in these bytes with the configuration's; an error when the shapes differ.
    fn of(found: Option<&RawValue>, bytes: &RawValue, version: &str) -> Result<Self, String> {
        let Some(value) = found else {
            return Ok(Self::Missing);
        };
        let text = serde_json::from_str::<Option<String>>(value.get()).map(Option::unwrap_or_default);
        match text {
            Ok(text) if text == version => Ok(Self::Same),
            Ok(text) if text.is_empty() || version::have_same_shape(&text, version) => {
                Ok(Self::Replace(range_of(value, bytes)))
            }
            _ => Err(format!(
                "has cniVersion {}, but the network configuration has {version:?}",
                value.get()
            )),
        }
    }
}

/// The range of a value borrowed from these bytes.
fn range_of(value: &RawValue, bytes: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr() as usize - bytes.get().as_ptr() as usize;
    start..start + value.get().len()
}

fn family(address: &str) -> Option<Family> {
    match address.split('/').next()?.parse().ok()? {
        IpAddr::V4(_) => Some(Family::V4),
        IpAddr::V6(_) => Some(Family::V6),
    }
}

/// The fields the plugin reads, in all shapes from 0.1.0 on.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(rename = "cniVersion", borrow, default, deserialize_with = "including_null")]
    version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ips: Option<Vec<Address<'a>>>,
    #[serde(borrow, default)]
    ip4: Option<OldAddress<'a>>,
    #[serde(borrow, default)]
    ip6: Option<OldAddress<'a>>,
}

/// The bytes of a value, null included; none only when its key is absent.
fn including_null<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

/// An entry of `ips`, from 0.3.0 on.
#[derive(Deserialize)]
struct Address<'a> {
    #[serde(borrow, default)]
    address: Option<Cow<'a, str>>,
}

/// `ip4` or `ip6` of 0.1.0 and 0.2.0.
#[derive(Deserialize)]
struct OldAddress<'a> {
    #[serde(borrow, default)]
    ip: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(previous: &str, version: &str) -> String {
        let raw: &RawValue = serde_json::from_str(previous).unwrap();
        Previous::read(raw, version).unwrap().pass_on(version)
    }

    #[test]
    fn result_is_passed_on_byte_for_byte() {
        for odd in [
            r#"{ "x-big":18446744073709551615 ,"a":"\u003c\ud83d\ude00", "cniVersion":"1.0.0","z":1.50}"#,
            "{\"cniVersion\" :\n\"1.0.0\" , \"ips\":null,\"dns\":{} }",
        ] {
            assert_eq!(passed_on(odd, "1.0.0"), odd);
        }
    }

    #[test]
    fn only_a_wrong_version_is_replaced() {
        for (previous, result) in [
            (r#"{"ips":[] }"#, r#"{"cniVersion":"0.4.0","ips":[] }"#),
            ("{ }", r#"{"cniVersion":"0.4.0"}"#),
            (
                r#"{"a":1,"cniVersion": null ,"b":2}"#,
                r#"{"a":1,"cniVersion": "0.4.0" ,"b":2}"#,
            ),
            (r#"{"cniVersion":""}"#, r#"{"cniVersion":"0.4.0"}"#),
            (r#"{"cniVersion" :"0.3.1" }"#, r#"{"cniVersion" :"0.4.0" }"#),
        ] {
            assert_eq!(passed_on(previous, "0.4.0"), result);
        }
    }
}
