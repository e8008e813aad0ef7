//! The keys of one JSON object. Each is decoded separately, so that an error names the key instead of a byte offset.
//!
//! As in the reference library (Go's `encoding/json`), keys ignore case, the last of several equal keys wins, and null
//! counts as absent.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::invalid::InvalidNetConf;

/// An object of the configuration, with its path.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// Such as `linkerd.`, empty at the top.
    path: &'static str,
    members: Members<'a>,
}

/// The keys of an object and the bytes of their values, in order.
#[derive(Debug, Default)]
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// The whole of stdin.
    pub(super) fn parse(json: &'a [u8]) -> serde_json::Result<Self> {
        let members: Option<Members<'a>> = serde_json::from_slice(json)?;
        Ok(Self {
            path: "",
            members: members.unwrap_or_default(),
        })
    }

    /// Returns the bytes of a key's value.
    pub(super) fn raw(&self, key: &str) -> Option<&'a RawValue> {
        let mut last_first = self.members.0.iter().rev();
        let found = last_first.find(|(name, value)| name.eq_ignore_ascii_case(key) && value.get() != "null");
        found.map(|(_, value)| *value)
    }

    /// Decodes a key's value; the error is the decoder's own.
    pub(super) fn take<T: Deserialize<'a>>(&self, key: &str) -> serde_json::Result<Option<T>> {
        self.raw(key)
            .map(|raw| serde_json::from_str(raw.get()))
            .transpose()
    }

    /// Decodes a key's value.
    pub(super) fn value<T: Deserialize<'a>>(&self, key: &str) -> Result<Option<T>, InvalidNetConf> {
        self.take(key).map_err(|e| {
            // The position is relative to the value and would mislead.
            let text = e.to_string();
            let cause = text.split(" at line ").next().unwrap_or_default();
            self.invalid(key, format!("cannot be read: {cause}"))
        })
    }

    /// Decodes and checks a key's value; when the key is absent, the type's default is checked.
    pub(super) fn checked<T, U, E>(
        &self,
        key: &str,
        check: impl FnOnce(T) -> Result<U, E>,
    ) -> Result<U, InvalidNetConf>
    where
        T: Deserialize<'a> + Default,
        E: fmt::Display,
    {
        check(self.value(key)?.unwrap_or_default()).map_err(|e| self.invalid(key, e.to_string()))
    }

    /// Returns which of two words a key holds, 0 or 1; the first is the default.
    pub(super) fn one_of(&self, key: &str, words: [&str; 2]) -> Result<usize, InvalidNetConf> {
        self.checked(key, |word: Cow<'_, str>| match &*word {
            "" => Ok(0),
            word => words.iter().position(|w| *w == word).ok_or_else(|| {
                let [first, second] = words;
                format!("is {word:?}; write {first} or {second}")
            }),
        })
    }

    /// Returns a nested object, empty when absent.
    pub(super) fn block(&self, key: &'static str) -> Result<Self, InvalidNetConf> {
        let members = self.value(key)?.unwrap_or_default();
        Ok(Self { path: key, members })
    }

    /// Rejects the first key that is not in the list.
    pub(super) fn reject_unknown(&self, known: &[&str]) -> Result<(), InvalidNetConf> {
        let is_known = |key: &str| known.iter().any(|known| known.eq_ignore_ascii_case(key));
        match self.members.0.iter().find(|(key, _)| !is_known(key)) {
            Some((key, _)) => Err(self.invalid(
                key,
                format!("is not a key of this block; known keys are {}", known.join(", ")),
            )),
            None => Ok(()),
        }
    }

    fn invalid(&self, key: &str, why: String) -> InvalidNetConf {
        let dot = if self.path.is_empty() { "" } else { "." };
        InvalidNetConf::value(format!("{}{dot}{key}", self.path), why)
    }
}

// === impl Members ===

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_map(Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(Key(key)) = object.next_key()? {
            members.push((key, object.next_value()?));
        }
        Ok(Members(members))
    }
}

/// A key, borrowed unless it contains an escape.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
