//! Checking that decoded values have the types their fields ask for.

use std::fmt;

use crate::json::{Kind, Layout, Path, Raw, Step, write_canonical};

/// The type that a value must have. `null` fits every shape, as an absent value does.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Anything.
    Any,
    /// A string.
    Str,
    /// `true` or `false`.
    Bool,
    /// A whole number of at most 64 bits.
    Int,
    /// A string of base64.
    Base64,
    /// A list of one shape.
    List(&'static Shape),
    /// An object with arbitrary keys and values of one shape.
    Map(&'static Shape),
    /// An object whose known fields have shapes; other fields are free.
    Object(&'static [(&'static str, Shape)]),
}

/// A value that does not have the type its field asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The way to the value.
    pub path: Path,
    /// What was wrong.
    pub fault: Fault,
}

/// How a value fails its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is of another kind.
    Kind {
        /// What was found.
        found: Kind,
        /// The name of what was expected.
        expected: &'static str,
    },
    /// It is no base64, seen at this byte.
    Base64(usize),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Fault::Kind { found, expected } if self.path.0.is_empty() => {
                write!(f, "json: cannot unmarshal {found} into value of type {expected}")
            }
            Fault::Kind { found, expected } => {
                write!(f, "json: cannot unmarshal {found} into field \"{}\" of type {expected}", self.path)
            }
            Fault::Base64(at) => write!(f, "illegal base64 data at input byte {at} of field \"{}\"", self.path),
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

    /// Checks `value`, which stands at `path`, and everything known inside it.
    ///
    /// # Errors
    /// Fails with the first value that has another type.
    pub fn check(self, value: Raw<'_>, path: &Path) -> Result<(), Mismatch> {
        self.check_at(value, || path.clone())
    }

    /// Checks as [`Shape::check`] does; the path is made only when something is wrong.
    ///
    /// # Errors
    /// Fails as [`Shape::check`] does.
    pub fn check_at(self, value: Raw<'_>, path: impl FnOnce() -> Path) -> Result<(), Mismatch> {
        self.check_known(value, path, &[]).map(drop)
    }

    /// Checks as [`Shape::check`] does; says whether there are fields that this shape does not know, but for those of
    /// the value itself that are in `known`. It may say so without cause of keys that stand there twice.
    pub(crate) fn check_noting(self, value: Raw<'_>, known: &[&str]) -> Result<bool, Mismatch> {
        self.check_known(value, Path::default, known)
    }

    fn check_known(self, value: Raw<'_>, path: impl FnOnce() -> Path, known: &[&str]) -> Result<bool, Mismatch> {
        let mut strange = false;
        if self.walk(value, known, &mut strange).is_ok() {
            return Ok(strange);
        }
        // Of equal keys only the last counts; the canonical form has no others.
        let mut text = Vec::new();
        write_canonical(value, Layout::Compact, &mut text);
        let text = String::from_utf8_lossy(&text);
        let walked = self.walk(Raw::from_checked(&text), known, &mut strange);
        walked.map(|()| strange).map_err(|trouble| {
            let mut path = path();
            path.0.extend(trouble.way_back.into_iter().rev());
            Mismatch { path, fault: trouble.fault }
        })
    }

    /// Returns the known fields of an object; none of anything else.
    pub fn fields(self) -> &'static [(&'static str, Shape)] {
        match self {
            Shape::Object(fields) => fields,
            _ => &[],
        }
    }

    /// Finds what is `null` in `value`, which stands at `path`, where this shape asks for a type.
    pub fn nulls(self, value: Raw<'_>, path: &Path) -> Vec<Path> {
        let mut found = Vec::new();
        self.find_nulls(value, &mut path.clone(), &mut found);
        found
    }

    fn find_nulls(self, value: Raw<'_>, path: &mut Path, found: &mut Vec<Path>) {
        let mut inside = |shape: Shape, value: Raw<'_>, step: Step, path: &mut Path| {
            path.0.push(step);
            shape.find_nulls(value, path, found);
            path.0.pop();
        };
        match self {
            Shape::Any => {}
            _ if value.is_null() => found.push(path.clone()),
            Shape::List(item) => {
                value.items().enumerate().for_each(|(index, value)| inside(*item, value, Step::Index(index), path));
            }
            Shape::Map(shape) => {
                value
                    .members()
                    .for_each(|(key, value)| inside(*shape, value, Step::Key(key.into_owned().into()), path));
            }
            Shape::Object(fields) => {
                for (key, value) in value.members() {
                    if let Some((name, shape)) = field(fields, &key) {
                        inside(*shape, value, Step::from(*name), path);
                    }
                }
            }
            Shape::Str | Shape::Bool | Shape::Int | Shape::Base64 => {}
        }
    }

    /// Walks `value`, and notes fields that are not known. The way to the culprit is put together only when there is
    /// one.
    fn walk(self, value: Raw<'_>, known: &[&str], strange: &mut bool) -> Result<(), Box<Trouble>> {
        let found = value.kind();
        let fits = match self {
            Shape::Any => return Ok(()),
            Shape::Str | Shape::Base64 => found == Kind::String,
            Shape::Bool => found == Kind::Bool,
            Shape::Int => found == Kind::Number && value.text().parse::<i64>().is_ok(),
            Shape::List(_) => found == Kind::Array,
            Shape::Map(_) | Shape::Object(_) => found == Kind::Object,
        };
        if found == Kind::Null {
            return Ok(());
        }
        if !fits {
            return Err(Trouble::of(Fault::Kind { found, expected: self.name() }));
        }
        match self {
            Shape::List(item) => {
                for (index, value) in value.items().enumerate() {
                    item.walk(value, &[], strange).map_err(|trouble| trouble.at(Step::Index(index)))?;
                }
            }
            Shape::Map(shape) => {
                for (key, value) in value.members() {
                    let walked = shape.walk(value, &[], strange);
                    walked.map_err(|trouble| trouble.at(Step::Key(key.into_owned().into())))?;
                }
            }
            Shape::Object(fields) => {
                for (key, value) in value.members() {
                    match field(fields, &key) {
                        Some((name, shape)) => {
                            shape.walk(value, &[], strange).map_err(|trouble| trouble.at(Step::from(*name)))?;
                        }
                        None => *strange |= !known.iter().any(|name| name.eq_ignore_ascii_case(&key)),
                    }
                }
            }
            Shape::Base64 => {
                let text = value.as_str().unwrap_or_default();
                crate::base64::check(&text).map_err(|at| Trouble::of(Fault::Base64(at)))?;
            }
            Shape::Any | Shape::Str | Shape::Bool | Shape::Int => {}
        }
        Ok(())
    }
}

/// What is wrong, and the way from there to the top.
struct Trouble {
    way_back: Vec<Step>,
    fault: Fault,
}

impl Trouble {
    #[cold]
    fn of(fault: Fault) -> Box<Trouble> {
        Box::new(Trouble { way_back: Vec::new(), fault })
    }

    #[cold]
    fn at(mut self: Box<Trouble>, step: Step) -> Box<Trouble> {
        self.way_back.push(step);
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
    fn a_wrong_type_is_named_with_its_field() {
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
    fn nulls_are_found_where_a_type_is_asked_for() {
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
    fn only_the_last_of_equal_keys_is_checked() {
        assert_eq!(check(r#"{"n":"x","n":1}"#), "fits");
        assert_eq!(
            check(r#"{"ENTRIES":{}}"#),
            r#"json: cannot unmarshal object into field "top.entries" of type list"#
        );
    }
}
