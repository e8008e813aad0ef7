//! `prevResult`: kept as the bytes it came as; two things of it are looked at.

use std::{borrow::Cow, net::IpAddr, ops::Range};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Error, field::Fields};
use crate::policy::cidr::Family;

/// The versions whose results are of one shape. The reference library has a type for each and takes any of its versions
/// for the one it was asked in (`supportedVersions` of `pkg/types/020`, `040` and `100`).
const SHAPES: [&[&str]; 3] = [
    &["0.1.0", "0.2.0"],
    &["0.3.0", "0.3.1", "0.4.0"],
    &["1.0.0", "1.1.0"],
];

/// The bytes, and the two things we look at.
#[derive(Debug)]
pub struct Previous<'a> {
    raw: &'a RawValue,
    version: Version,
    /// The families of the addresses it reports, ascending, each once.
    pub families: Vec<Family>,
}

/// Its `cniVersion`, which the protocol wants in every result.
#[derive(Debug)]
enum Version {
    Stated,
    Missing,
    /// Null, empty, or another one of the same shape, at this place of the bytes.
    ToBeStated(Range<usize>),
}

// === impl Previous ===

impl<'a> Previous<'a> {
    pub(super) fn check(top: &Fields<'a>, version: &str) -> Result<Option<Self>, Error> {
        let Some(raw) = top.raw("prevResult") else {
            return Ok(None);
        };
        let invalid = |why: String| Error::Value {
            key: "prevResult".into(),
            why,
        };
        // Derived code would take an array for an object whose fields come in order.
        if !raw.get().starts_with('{') {
            return Err(invalid("is not an object".into()));
        }
        let shape: Shape<'_> =
            serde_json::from_str(raw.get()).map_err(|e| invalid(format!("cannot be read: {e}")))?;
        let its_version = Version::of(shape.version, raw, version).map_err(invalid)?;
        let modern = shape.ips.into_iter().flatten().filter_map(|ip| ip.address);
        let old = [shape.ip4, shape.ip6]
            .into_iter()
            .flatten()
            .filter_map(|ip| ip.ip);
        let mut families: Vec<Family> = modern.chain(old).filter_map(|address| family(&address)).collect();
        families.sort_unstable();
        families.dedup();
        Ok(Some(Self {
            raw,
            version: its_version,
            families,
        }))
    }

    /// The bytes again: what we do not understand we must not lose. Only the version is made the configuration's.
    pub(super) fn handed_on(&self, version: &str) -> String {
        let bytes = self.raw.get();
        match &self.version {
            Version::Stated => bytes.to_owned(),
            Version::ToBeStated(place) => {
                format!("{}\"{version}\"{}", &bytes[..place.start], &bytes[place.end..])
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
    /// What is stated in these bytes, where the configuration is of `version`; or why the two do not go together.
    fn of(stated: Option<&RawValue>, bytes: &RawValue, version: &str) -> Result<Self, String> {
        let Some(value) = stated else {
            return Ok(Self::Missing);
        };
        let text = serde_json::from_str::<Option<String>>(value.get()).map(Option::unwrap_or_default);
        match text {
            Ok(text) if text == version => Ok(Self::Stated),
            Ok(text) if text.is_empty() || are_of_one_shape(&text, version) => {
                Ok(Self::ToBeStated(place_of(value, bytes)))
            }
            _ => {
                let its = value.get();
                Err(format!(
                    "is of cniVersion {its}, the configuration of {version:?}"
                ))
            }
        }
    }
}

fn are_of_one_shape(one: &str, other: &str) -> bool {
    SHAPES
        .iter()
        .any(|shape| shape.contains(&one) && shape.contains(&other))
}

/// Where a value borrowed from these bytes lies in them.
fn place_of(value: &RawValue, bytes: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr() as usize - bytes.get().as_ptr() as usize;
    start..start + value.get().len()
}

fn family(address: &str) -> Option<Family> {
    match address.split('/').next()?.parse().ok()? {
        IpAddr::V4(_) => Some(Family::V4),
        IpAddr::V6(_) => Some(Family::V6),
    }
}

/// What we look at of a result, in all shapes from 0.1.0 on.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(rename = "cniVersion", borrow, default, deserialize_with = "even_null")]
    version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ips: Option<Vec<Address<'a>>>,
    #[serde(borrow, default)]
    ip4: Option<OldAddress<'a>>,
    #[serde(borrow, default)]
    ip6: Option<OldAddress<'a>>,
}

/// The bytes of a value, none only when its key is absent.
fn even_null<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
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

    fn handed_on(previous: &str, version: &str) -> String {
        let stdin = format!(r#"{{"prevResult":{previous}}}"#);
        let fields = Fields::parse(stdin.as_bytes()).unwrap();
        Previous::check(&fields, version)
            .unwrap()
            .unwrap()
            .handed_on(version)
    }

    #[test]
    fn a_previous_result_comes_back_byte_for_byte() {
        for odd in [
            r#"{ "x-big":18446744073709551615 ,"a":"\u003c\ud83d\ude00", "cniVersion":"1.0.0","z":1.50}"#,
            "{\"cniVersion\" :\n\"1.0.0\" , \"ips\":null,\"dns\":{} }",
        ] {
            assert_eq!(handed_on(odd, "1.0.0"), odd);
        }
    }

    #[test]
    fn a_version_that_is_not_stated_or_another_one_is_put_right_and_nothing_else() {
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
            assert_eq!(handed_on(previous, "0.4.0"), result);
        }
    }
}
