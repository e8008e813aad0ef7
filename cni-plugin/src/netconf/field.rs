//! The keys of one JSON object, each decoded on its own, so that an error names the key and not a byte offset.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Error;

/// An object of the configuration and where it stands in it.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// Such as `linkerd.`, empty at the top.
    path: &'static str,
    fields: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

impl<'a> Fields<'a> {
    /// The whole of stdin. The last of a repeated key wins, as in the reference.
    pub(super) fn parse(json: &'a [u8]) -> serde_json::Result<Self> {
        let fields: Option<BTreeMap<Cow<'a, str>, &'a RawValue>> = serde_json::from_slice(json)?;
        Ok(Self {
            path: "",
            fields: fields.unwrap_or_default(),
        })
    }

    /// The bytes of a key's value.
    pub(super) fn raw(&self, key: &str) -> Option<&'a RawValue> {
        self.fields.get(key).copied()
    }

    /// A key's value, or the decoder's own error.
    pub(super) fn take<T: Deserialize<'a>>(&self, key: &str) -> serde_json::Result<Option<T>> {
        self.raw(key)
            .map(|raw| serde_json::from_str(raw.get()))
            .transpose()
    }

    /// A key's value; null counts as absent.
    pub(super) fn value<T: Deserialize<'a>>(&self, key: &str) -> Result<Option<T>, Error> {
        self.take::<Option<T>>(key).map(Option::flatten).map_err(|e| {
            // The position is one inside the value, of no use to anybody.
            let text = e.to_string();
            let cause = text.split(" at line ").next().unwrap_or_default();
            self.invalid(key, format!("cannot be read: {cause}"))
        })
    }

    /// A key's value after a check of it; the type's default is checked when the key is absent.
    pub(super) fn checked<T, U, E>(
        &self,
        key: &str,
        check: impl FnOnce(T) -> Result<U, E>,
    ) -> Result<U, Error>
    where
        T: Deserialize<'a> + Default,
        E: fmt::Display,
    {
        check(self.value(key)?.unwrap_or_default()).map_err(|e| self.invalid(key, e.to_string()))
    }

    /// Which of two words a key holds, 0 or 1; the first is the default.
    pub(super) fn one_of(&self, key: &str, words: [&str; 2]) -> Result<usize, Error> {
        self.checked(key, |word: Cow<'_, str>| match &*word {
            "" => Ok(0),
            word => words.iter().position(|w| *w == word).ok_or_else(|| {
                let [first, second] = words;
                format!("is {word:?}; write {first} or {second}")
            }),
        })
    }

    /// A nested object; empty when absent.
    pub(super) fn block(&self, key: &'static str) -> Result<Self, Error> {
        let fields = self.value(key)?.unwrap_or_default();
        Ok(Self { path: key, fields })
    }

    /// An error for the first key that is not in the list.
    pub(super) fn refuse_unknown(&self, known: &[&str]) -> Result<(), Error> {
        match self.fields.keys().find(|key| !known.contains(&&***key)) {
            Some(key) => Err(self.invalid(
                key,
                format!("is not a key of this block; known are {}", known.join(", ")),
            )),
            None => Ok(()),
        }
    }

    fn invalid(&self, key: &str, why: String) -> Error {
        let dot = if self.path.is_empty() { "" } else { "." };
        Error::Value {
            key: format!("{}{dot}{key}", self.path),
            why,
        }
    }
}
