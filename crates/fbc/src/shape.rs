//! Checks that values have the types of their fields.

use std::fmt;

use crate::json::{JsonKind, JsonLayout, JsonPath, PathStep, Raw, write_canonical};

/// The required type of a value. `null` matches every shape, like an absent value.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Any value.
    Any,
    /// A string.
    Str,
    /// `true` or `false`.
    Bool,
    /// An integer of at most 64 bits.
    Int,
    /// A string of base64.
    Base64,
    /// A list of items with one shape.
    List(&'static Shape),
    /// An object with arbitrary keys and values of one shape.
    Map(&'static Shape),
    /// An object whose known fields have shapes; other fields are unrestricted.
    Object(&'static [(&'static str, Shape)]),
}

/// A value with the wrong type for its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The path of the value.
    pub path: JsonPath,
    /// The error.
    pub fault: ShapeFault,
}

/// The kinds of type errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShapeFault {
    /// The value is of another kind.
    Kind {
        found: JsonKind,
        /// The name of the expected type.
        expected: &'static str,
    },
    /// The value is not base64, from this byte on.
    Base64(usize),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            ShapeFault::Kind { found, expected } if self.path.0.is_empty() => {
                write!(f, "json: cannot unmarshal {found} into value of type {expected}")
            }
            ShapeFault::Kind { found, expected } => {
                write!(f, "json: cannot unmarshal {found} into field \"{}\" of type {expected}", self.path)
            }
            ShapeFault::Base64(at) => write!(f, "illegal base64 data at input byte {at} of field \"{}\"", self.path),
        }
    }
}

impl std::error::Error for Mismatch {}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Shape::Any => "any",
            Shape::Str => "string",
            Shape::Bool => "bool",
            Shape::Int => "int",
            Shape::Base64 => "base64 string",
            Shape::List(_) => "list",
            Shape::Map(_) | Shape::Object(_) => "object",
        }
    }

    /// Checks `value` at `path`, and all known fields inside it.
    ///
    /// # Errors
    /// Fails at the first value with the wrong type.
    pub fn check(self, value: Raw<'_>, path: &JsonPath) -> Result<(), Mismatch> {
        self.check_at(value, || path.clone())
    }

    /// Like [`Shape::check`], but builds the path only on failure.
    ///
    /// # Errors
    /// Fails as [`Shape::check`] does.
    pub fn check_at(self, value: Raw<'_>, path: impl FnOnce() -> JsonPath) -> Result<(), Mismatch> {
        self.check_known(value, path, &[]).map(drop)
    }

    /// Like [`Shape::check`], but returns whether there may be fields that this shape does not know, except those of
    /// the value itself in `known`. Duplicate keys may cause false positives.
    pub(crate) fn check_noting(self, value: Raw<'_>, known: &[&str]) -> Result<bool, Mismatch> {
        self.check_known(value, JsonPath::default, known)
    }

    fn check_known(self, value: Raw<'_>, path: impl FnOnce() -> JsonPath, known: &[&str]) -> Result<bool, Mismatch> {
        let mut has_unknown = false;
        if self.walk(value, known, &mut has_unknown).is_ok() {
            return Ok(has_unknown);
        }
        // Only the last of equal keys counts; the canonical form has no others.
        let mut text = Vec::new();
        write_canonical(value, JsonLayout::Compact, &mut text);
        let text = String::from_utf8_lossy(&text);
        let walked = self.walk(Raw::from_checked(&text), known, &mut has_unknown);
        walked.map(|()| has_unknown).map_err(|trouble| {
            let mut path = path();
            path.0.extend(trouble.reversed_path.into_iter().rev());
            Mismatch { path, fault: trouble.fault }
        })
    }

    /// Returns the known fields of an object; empty for other shapes.
    pub fn fields(self) -> &'static [(&'static str, Shape)] {
        match self {
            Shape::Object(fields) => fields,
            _ => &[],
        }
    }

    /// Finds `null` values in `value` at `path` where this shape requires a type.
    pub fn nulls(self, value: Raw<'_>, path: &JsonPath) -> Vec<JsonPath> {
        let mut found = Vec::new();
        self.find_nulls(value, &mut path.clone(), &mut found);
        found
    }

    fn find_nulls(self, value: Raw<'_>, path: &mut JsonPath, found: &mut Vec<JsonPath>) {
        let mut inside = |shape: Shape, value: Raw<'_>, step: PathStep, path: &mut JsonPath| {
            path.0.push(step);
            shape.find_nulls(value, path, found);
            path.0.pop();
        };
        match self {
            Shape::Any => {}
            _ if value.is_null() => found.push(path.clone()),
            Shape::List(item) => {
                value.items().enumerate().for_each(|(index, value)| inside(*item, value, PathStep::Index(index), path));
            }
            Shape::Map(shape) => {
                value
                    .members()
                    .for_each(|(key, value)| inside(*shape, value, PathStep::Key(key.into_owned().into()), path));
            }
            Shape::Object(fields) => {
                for (key, value) in value.members() {
                    if let Some((name, shape)) = field(fields, &key) {
                        inside(*shape, value, PathStep::from(*name), path);
                    }
                }
            }
            Shape::Str | Shape::Bool | Shape::Int | Shape::Base64 => {}
        }
    }

    /// Walks `value` and records unknown fields. The path of an error is built only on failure.
    fn walk(self, value: Raw<'_>, known: &[&str], has_unknown: &mut bool) -> Result<(), Box<FaultAt>> {
        let found = value.kind();
        let fits = match self {
            Shape::Any => return Ok(()),
            Shape::Str | Shape::Base64 => found == JsonKind::String,
            Shape::Bool => found == JsonKind::Bool,
            Shape::Int => found == JsonKind::Number && value.text().parse::<i64>().is_ok(),
            Shape::List(_) => found == JsonKind::Array,
            Shape::Map(_) | Shape::Object(_) => found == JsonKind::Object,
        };
        if found == JsonKind::Null {
            return Ok(());
        }
        if !fits {
            return Err(FaultAt::of(ShapeFault::Kind { found, expected: self.name() }));
        }
        match self {
            Shape::List(item) => {
                for (index, value) in value.items().enumerate() {
                    item.walk(value, &[], has_unknown).map_err(|trouble| trouble.at(PathStep::Index(index)))?;
                }
            }
            Shape::Map(shape) => {
                for (key, value) in value.members() {
                    let walked = shape.walk(value, &[], has_unknown);
                    walked.map_err(|trouble| trouble.at(PathStep::Key(key.into_owned().into())))?;
                }
            }
            Shape::Object(fields) => {
                for (key, value) in value.members() {
                    match field(fields, &key) {
                        Some((name, shape)) => {
                            shape.walk(value, &[], has_unknown).map_err(|trouble| trouble.at(PathStep::from(*name)))?;
                        }
                        None => *has_unknown |= !known.iter().any(|name| name.eq_ignore_ascii_case(&key)),
                    }
                }
            }
            Shape::Base64 => {
                let text = value.as_str().unwrap_or_default();
                crate::base64::check(&text).map_err(|at| FaultAt::of(ShapeFault::Base64(at)))?;
            }
            Shape::Any | Shape::Str | Shape::Bool | Shape::Int => {}
        }
        Ok(())
    }
}

/// A fault, and the path from there to the root.
struct FaultAt {
    reversed_path: Vec<PathStep>,
    fault: ShapeFault,
}

impl FaultAt {
    #[cold]
    fn of(fault: ShapeFault) -> Box<FaultAt> {
        Box::new(FaultAt { reversed_path: Vec::new(), fault })
    }

    #[cold]
    fn at(mut self: Box<FaultAt>, step: PathStep) -> Box<FaultAt> {
        self.reversed_path.push(step);
        self
    }
}

#[inline]
fn field<'a>(fields: &'a [(&'static str, Shape)], key: &str) -> Option<&'a (&'static str, Shape)> {
    fields
        .iter()
        .find(|(name, _)| *name == key)
        .or_else(|| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path;

    const ENTRY: Shape = Shape::Object(&[("name", Shape::Str), ("skips", Shape::List(&Shape::Str))]);
    const CHANNEL: Shape =
        Shape::Object(&[("entries", Shape::List(&ENTRY)), ("n", Shape::Int), ("labels", Shape::Map(&Shape::Str))]);

    fn check(text: &str) -> String {
        match CHANNEL.check(Raw::parse(text, 50).unwrap(), &path!["top"]) {
            Ok(()) => "fits".into(),
            Err(mismatch) => mismatch.to_string(),
        }
    }

    #[test]
    fn a_wrong_type_is_reported_with_its_field() {
        assert_eq!(check(r#"{"entries":[{"name":"a","skips":null,"other":1}],"n":-7,"labels":{"a":"b"}}"#), "fits");
        assert_eq!(
            check(r#"{"entries":[{"name":"a"},{"skips":[1]}]}"#),
            r#"json: cannot unmarshal number into field "top.entries[1].skips[0]" of type string"#
        );
        assert_eq!(
            check(r#"{"labels":{"a":true}}"#),
            r#"json: cannot unmarshal bool into field "top.labels.a" of type string"#
        );
        assert_eq!(check(r#"{"n":1.5}"#), r#"json: cannot unmarshal number into field "top.n" of type int"#);
    }

    #[test]
    fn nulls_are_rejected_where_a_type_is_required() {
        let nulls = |text: &str| {
            let found = CHANNEL.nulls(Raw::parse(text, 50).unwrap(), &path!["top"]);
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(nulls(r#"{"entries":[{"name":"a","skips":["b"],"other":null}],"free":null}"#), "");
        assert_eq!(
            nulls(r#"{"entries":[null,{"name":null,"skips":[null]}],"n":null,"labels":{"a":null}}"#),
            "top.entries[0] top.entries[1].name top.entries[1].skips[0] top.n top.labels.a"
        );
        assert_eq!(nulls(r#"{"entries":null,"labels":null}"#), "top.entries top.labels");
    }

    #[test]
    fn only_the_last_duplicate_key_is_checked() {
        assert_eq!(check(r#"{"n":"x","n":1}"#), "fits");
        assert_eq!(
            check(r#"{"ENTRIES":{}}"#),
            r#"json: cannot unmarshal object into field "top.entries" of type list"#
        );
    }
}
