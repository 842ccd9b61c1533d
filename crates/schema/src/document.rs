//! A document of a kind, with its fields and what is to be said about them.

use fbc::shape::Shape;

use crate::{blobs, files, properties};

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A blob of a catalog.
    Blob,
    /// The value of a property.
    Property,
    /// A template that becomes a catalog.
    Template,
    /// Another file that commands read.
    File,
}

/// A kind of document.
#[derive(Debug, Clone, Copy)]
pub struct Document {
    /// What it is.
    pub kind: Kind,
    /// Its schema, the type of the property, or what users call the file.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// One that is valid, as JSON.
    pub example: &'static str,
    /// The fields of the envelope, which are strings.
    pub envelope: &'static [&'static str],
    /// Its type, as decoding checks it.
    pub shape: Shape,
    /// What is to be said about its fields, by their paths.
    pub fields: &'static [Field],
    /// What else must hold, as members of a JSON Schema.
    pub also: &'static str,
    /// Whether fields that are not known are refused.
    pub closed: bool,
}

/// What is to be said about a field.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The way to it, by names alone: `entries.skipRange`.
    pub path: &'static str,
    /// What it means.
    pub about: &'static str,
    /// A value, as JSON; empty where the fields inside have examples.
    pub example: &'static str,
    /// What must hold beside its type.
    pub must: &'static [Must],
}

/// What must hold of a field beside its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Must {
    /// It is given, and not `null`.
    BeGiven,
    /// Text or list, it is not empty.
    BeFilled,
    /// It matches this regular expression.
    Match(&'static str),
    /// It is one of these.
    BeOneOf(&'static [&'static str]),
}

/// Says something about a field.
pub(crate) const fn field(
    path: &'static str,
    about: &'static str,
    example: &'static str,
    must: &'static [Must],
) -> Field {
    Field { path, about, example, must }
}

/// Returns all documents: blobs, properties, templates, files.
pub fn documents() -> Vec<Document> {
    [blobs::documents(), properties::documents(), files::documents()].concat()
}

impl Document {
    /// Returns the name that no other document has: properties share names with blobs.
    pub(crate) fn full_name(&self) -> String {
        match self.kind {
            Kind::Property => format!("property/{}", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// Returns what is said about the field at a path.
    pub fn field(&self, path: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.path == path)
    }

    /// Returns the paths of all fields that decoding knows, each with its type.
    pub fn paths(&self) -> Vec<(String, Shape)> {
        let mut found: Vec<(String, Shape)> = self.envelope.iter().map(|name| ((*name).into(), Shape::Str)).collect();
        walk(self.shape, "", self.shape, 0, &mut found);
        found
    }
}

/// Collects the fields inside a type; those of a type inside itself are the same again.
fn walk(shape: Shape, path: &str, root: Shape, depth: usize, found: &mut Vec<(String, Shape)>) {
    match shape {
        Shape::List(item) | Shape::Map(item) => {
            if depth == 0 || !is_same(*item, root) {
                walk(*item, path, root, depth + 1, found);
            }
        }
        Shape::Object(fields) => {
            for (name, shape) in fields {
                let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
                found.push((path.clone(), *shape));
                walk(*shape, &path, root, depth + 1, found);
            }
        }
        Shape::Any | Shape::Str | Shape::Bool | Shape::Int | Shape::Base64 => {}
    }
}

/// Returns whether two types are one table.
pub(crate) fn is_same(a: Shape, b: Shape) -> bool {
    match (a, b) {
        (Shape::Object(a), Shape::Object(b)) => !a.is_empty() && std::ptr::eq(a, b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fbc::json::Raw;
    use fbc::path;

    use super::*;

    #[test]
    fn every_field_that_is_decoded_is_described_and_no_other() {
        for document in documents() {
            let known: BTreeSet<String> = document.paths().into_iter().map(|(path, _)| path).collect();
            let described: BTreeSet<String> = document.fields.iter().map(|field| field.path.to_owned()).collect();
            assert_eq!(known, described, "{}", document.full_name());
            assert_eq!(described.len(), document.fields.len(), "{}: described twice", document.full_name());
        }
    }

    #[test]
    fn examples_have_the_types_that_decoding_asks_for() {
        for document in documents() {
            let check = |shape: Shape, text: &str, what: &str| {
                let value = Raw::parse(text, 50).unwrap_or_else(|error| panic!("{what}: {text}: {error}"));
                shape.check(value, &path![]).unwrap_or_else(|error| panic!("{what}: {text}: {error}"));
            };
            check(document.shape, document.example, document.name);
            for (path, shape) in document.paths() {
                let field = document.field(&path).expect("described");
                if !field.example.is_empty() {
                    check(shape, field.example, &format!("{} {path}", document.name));
                }
                assert!(!field.about.is_empty() && !field.about.ends_with('.'), "{} {path}", document.name);
            }
        }
    }

    #[test]
    fn a_type_inside_itself_is_walked_once() {
        let documents = documents();
        let constraint = documents.iter().find(|document| document.name == "olm.constraint").expect("a document");
        let paths: Vec<String> = constraint.paths().into_iter().map(|(path, _)| path).collect();
        assert!(paths.contains(&"all.constraints".to_owned()), "{paths:?}");
        assert!(!paths.iter().any(|path| path.starts_with("all.constraints.")), "{paths:?}");
    }
}
