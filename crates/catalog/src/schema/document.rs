//! Kinds of documents and the descriptions of their fields.

use fbc::shape::Shape;

use crate::schema::{blobs, files, properties};

/// The category of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentCategory {
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
pub struct SchemaDocument {
    pub kind: DocumentCategory,
    /// The schema of a blob or template, the type of a property, or the common name of a file.
    pub name: &'static str,
    /// The description.
    pub about: &'static str,
    /// A valid example, as JSON.
    pub example: &'static str,
    /// The names of the envelope fields, which are strings.
    pub envelope: &'static [&'static str],
    /// The type that decoding checks.
    pub shape: Shape,
    /// Descriptions of the fields, by path.
    pub fields: &'static [FieldDescription],
    /// Further constraints, as members of a JSON Schema.
    pub extra: &'static str,
    /// Whether unknown fields are rejected.
    pub closed: bool,
}

/// The description of a field.
#[derive(Debug, Clone, Copy)]
pub struct FieldDescription {
    /// The path, with field names only: `entries.skipRange`.
    pub path: &'static str,
    /// The description.
    pub about: &'static str,
    /// An example value, as JSON; empty where the nested fields have examples.
    pub example: &'static str,
    /// Constraints beyond the type.
    pub constraints: &'static [Constraint],
}

/// A constraint on a field beyond its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constraint {
    /// The field is required and not `null`.
    Required,
    /// The string or list is not empty.
    NonEmpty,
    /// The value matches this regular expression.
    Pattern(&'static str),
    /// The value is one of these.
    OneOf(&'static [&'static str]),
}

/// Builds a field description.
pub(crate) const fn field(
    path: &'static str,
    about: &'static str,
    example: &'static str,
    constraints: &'static [Constraint],
) -> FieldDescription {
    FieldDescription { path, about, example, constraints }
}

/// Returns all documents: blobs, properties, templates, files.
pub fn documents() -> Vec<SchemaDocument> {
    [blobs::documents(), properties::documents(), files::documents()].concat()
}

impl SchemaDocument {
    /// Returns a unique name: properties share names with blobs, so theirs get a prefix.
    pub(crate) fn full_name(&self) -> String {
        match self.kind {
            DocumentCategory::Property => format!("property/{}", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// Returns the description of the field at `path`.
    pub fn field(&self, path: &str) -> Option<&'static FieldDescription> {
        self.fields.iter().find(|field| field.path == path)
    }

    /// Returns the paths of all fields that decoding knows, with their types.
    pub fn paths(&self) -> Vec<(String, Shape)> {
        let mut found: Vec<(String, Shape)> = self.envelope.iter().map(|name| ((*name).into(), Shape::Str)).collect();
        walk(self.shape, "", self.shape, 0, &mut found);
        found
    }
}

/// Collects the fields inside a type, descending into a recursive type once.
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

/// Returns whether two types share one table of fields.
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
    fn exactly_the_decoded_fields_are_described() {
        for document in documents() {
            let known: BTreeSet<String> = document.paths().into_iter().map(|(path, _)| path).collect();
            let described: BTreeSet<String> = document.fields.iter().map(|field| field.path.to_owned()).collect();
            assert_eq!(known, described, "{}", document.full_name());
            assert_eq!(described.len(), document.fields.len(), "{}: described twice", document.full_name());
        }
    }

    #[test]
    fn examples_have_the_decoded_types() {
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
