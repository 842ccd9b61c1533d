//! Strict JSON: no duplicate keys, no unknown keys, no values of the wrong type.
//!
//! Policies and signed claims decide who is trusted. Two parsers that disagree on a document are a vulnerability, so
//! ambiguous documents are rejected.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// A JSON value whose objects have unique keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool,
    Integer(i64),
    Fraction(f64),
    Text(String),
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

/// Parses a whole document. The parser limits the depth.
pub(crate) fn parse(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// An object whose keys are consumed one by one.
pub(crate) struct Fields {
    what: &'static str,
    fields: BTreeMap<String, Value>,
}

impl Fields {
    /// Wraps `value`, which messages call `what`.
    pub(crate) fn of(value: Value, what: &'static str) -> Result<Fields, String> {
        match value {
            Value::Object(fields) => Ok(Fields { what, fields }),
            other => Err(format!("{what} is {}, not an object", other.kind())),
        }
    }

    /// Takes a value of any type.
    pub(crate) fn any(&mut self, key: &str) -> Option<Value> {
        self.fields.remove(key)
    }

    /// Takes a required value.
    pub(crate) fn required(&mut self, key: &str) -> Result<Value, String> {
        self.any(key).ok_or_else(|| format!("{} has no {key:?}", self.what))
    }

    /// Takes a string.
    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.any(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(format!("{key:?} in {} is {}, not a string", self.what, other.kind())),
        }
    }

    /// Takes a required string.
    pub(crate) fn required_text(&mut self, key: &str) -> Result<String, String> {
        self.text(key)?.ok_or_else(|| format!("{} has no {key:?}", self.what))
    }

    /// Takes a required integer.
    #[cfg(feature = "verify")]
    pub(crate) fn required_integer(&mut self, key: &str) -> Result<i64, String> {
        match self.required(key)? {
            Value::Integer(number) => Ok(number),
            other => Err(format!("{key:?} in {} is {}, not an integer", self.what, other.kind())),
        }
    }

    /// Takes a list of strings.
    pub(crate) fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, String> {
        let to_error = |kind: &str| format!("{key:?} is {kind}, not a list of strings");
        match self.any(key) {
            None => Ok(None),
            Some(Value::List(items)) => {
                let text = |item| match item {
                    Value::Text(text) => Ok(text),
                    other => Err(to_error(&format!("a list with {}", other.kind()))),
                };
                items.into_iter().map(text).collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(to_error(other.kind())),
        }
    }

    /// Returns the remaining fields.
    pub(crate) fn rest(self) -> BTreeMap<String, Value> {
        self.fields
    }

    /// Rejects remaining keys as unknown.
    pub(crate) fn end(self) -> Result<(), String> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(key) => Err(format!("unknown key {key:?} in {}", self.what)),
        }
    }
}

impl Value {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool => "a boolean",
            Value::Integer(_) | Value::Fraction(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Bool)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Fraction(number as f64), Value::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Fraction(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
            }
            fields.insert(key, entries.next_value()?);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_rejected() {
        assert!(parse(br#"{"a": 1, "a": 2}"#).unwrap_err().contains("duplicate key \"a\""));
        assert!(parse(br#"{"x": [{"a": 1, "\u0061": 2}]}"#).is_err());
        assert!(parse(br#"{"a": 1} {}"#).is_err());
    }

    #[test]
    fn nesting_is_limited() {
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        assert!(parse(&deep).unwrap_err().contains("recursion limit"));
    }
}
