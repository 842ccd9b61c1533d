//! Strict JSON: no duplicate keys, no unknown keys, no values of the wrong type.
//!
//! Policies and signed claims decide who is trusted. Two parsers that disagree on a document are a vulnerability, so
//! ambiguous documents are rejected.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// A JSON value whose objects have unique keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StrictValue {
    Null,
    Bool,
    Integer(i64),
    Fraction(f64),
    Text(String),
    List(Vec<StrictValue>),
    Object(BTreeMap<String, StrictValue>),
}

/// Why a document is not the expected one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
    #[error("{what} is {found}, not an object")]
    NotObject { what: &'static str, found: &'static str },
    #[error("{what} has no {key:?}")]
    Missing { what: &'static str, key: String },
    #[error("{key:?} in {what} is {found}, not {expected}")]
    Type { what: &'static str, key: String, found: &'static str, expected: &'static str },
    #[error("{key:?} is {found}, not a list of strings")]
    NotTexts { key: String, found: &'static str },
    #[error("{key:?} is a list with {found}, not a list of strings")]
    NotText { key: String, found: &'static str },
    #[error("unknown key {key:?} in {what}")]
    Unknown { what: &'static str, key: String },
}

/// Parses a whole document. The parser limits the depth.
pub(crate) fn parse(text: &[u8]) -> Result<StrictValue, JsonError> {
    Ok(serde_json::from_slice(text)?)
}

/// An object whose keys are consumed one by one.
pub(crate) struct StrictObject {
    what: &'static str,
    fields: BTreeMap<String, StrictValue>,
}

impl StrictObject {
    /// Wraps `value`, which messages call `what`.
    pub(crate) fn of(value: StrictValue, what: &'static str) -> Result<StrictObject, JsonError> {
        match value {
            StrictValue::Object(fields) => Ok(StrictObject { what, fields }),
            other => Err(JsonError::NotObject { what, found: other.kind() }),
        }
    }

    /// Takes a value of any type.
    pub(crate) fn any(&mut self, key: &str) -> Option<StrictValue> {
        self.fields.remove(key)
    }

    /// Takes a required value.
    pub(crate) fn required(&mut self, key: &str) -> Result<StrictValue, JsonError> {
        self.any(key).ok_or_else(|| self.missing(key))
    }

    /// Takes a string.
    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>, JsonError> {
        match self.any(key) {
            None => Ok(None),
            Some(StrictValue::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.unexpected(key, &other, "a string")),
        }
    }

    /// Takes a required string.
    pub(crate) fn required_text(&mut self, key: &str) -> Result<String, JsonError> {
        self.text(key)?.ok_or_else(|| self.missing(key))
    }

    /// Takes a required integer.
    pub(crate) fn required_integer(&mut self, key: &str) -> Result<i64, JsonError> {
        match self.required(key)? {
            StrictValue::Integer(number) => Ok(number),
            other => Err(self.unexpected(key, &other, "an integer")),
        }
    }

    /// Takes a list of strings.
    pub(crate) fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, JsonError> {
        match self.any(key) {
            None => Ok(None),
            Some(StrictValue::List(items)) => {
                let text = |item| match item {
                    StrictValue::Text(text) => Ok(text),
                    other => Err(JsonError::NotText { key: key.to_owned(), found: other.kind() }),
                };
                items.into_iter().map(text).collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(JsonError::NotTexts { key: key.to_owned(), found: other.kind() }),
        }
    }

    /// Returns the remaining fields.
    pub(crate) fn rest(self) -> BTreeMap<String, StrictValue> {
        self.fields
    }

    /// Rejects remaining keys as unknown.
    pub(crate) fn end(self) -> Result<(), JsonError> {
        match self.fields.into_keys().next() {
            None => Ok(()),
            Some(key) => Err(JsonError::Unknown { what: self.what, key }),
        }
    }

    pub(crate) fn missing(&self, key: &str) -> JsonError {
        JsonError::Missing { what: self.what, key: key.to_owned() }
    }

    fn unexpected(&self, key: &str, found: &StrictValue, expected: &'static str) -> JsonError {
        JsonError::Type { what: self.what, key: key.to_owned(), found: found.kind(), expected }
    }
}

impl StrictValue {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            StrictValue::Null => "null",
            StrictValue::Bool => "a boolean",
            StrictValue::Integer(_) | StrictValue::Fraction(_) => "a number",
            StrictValue::Text(_) => "a string",
            StrictValue::List(_) => "a list",
            StrictValue::Object(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StrictValue, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = StrictValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<StrictValue, E> {
        Ok(StrictValue::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<StrictValue, E> {
        Ok(StrictValue::Bool)
    }

    fn visit_i64<E>(self, number: i64) -> Result<StrictValue, E> {
        Ok(StrictValue::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<StrictValue, E> {
        Ok(i64::try_from(number).map_or(StrictValue::Fraction(number as f64), StrictValue::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<StrictValue, E> {
        Ok(StrictValue::Fraction(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<StrictValue, E> {
        Ok(StrictValue::Text(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<StrictValue, E> {
        Ok(StrictValue::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<StrictValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(StrictValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<StrictValue, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
            }
            fields.insert(key, entries.next_value()?);
        }
        Ok(StrictValue::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_rejected() {
        assert!(parse(br#"{"a": 1, "a": 2}"#).unwrap_err().to_string().contains("duplicate key \"a\""));
        assert!(parse(br#"{"x": [{"a": 1, "\u0061": 2}]}"#).is_err());
        assert!(parse(br#"{"a": 1} {}"#).is_err());
    }

    #[test]
    fn nesting_is_limited() {
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        assert!(parse(&deep).unwrap_err().to_string().contains("recursion limit"));
    }
}
