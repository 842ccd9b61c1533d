//! Finds fields that the schema of a blob does not know.

use crate::blob::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE};
use crate::json::{JsonPath, PathStep, Raw};
use crate::schema::BlobSchema;
use crate::shape::Shape;

/// Returns the printed fields of a known schema.
pub(crate) fn printed(schema: &str) -> &'static [&'static str] {
    match schema {
        PACKAGE => &["schema", "name", "defaultChannel", "icon", "description", "properties"],
        CHANNEL => &["schema", "name", "package", "entries", "properties"],
        BUNDLE => &["schema", "name", "package", "image", "properties", "relatedImages"],
        DEPRECATIONS => &["schema", "package", "entries"],
        _ => &[],
    }
}

/// A field that the schema of a blob does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// The path of the field.
    pub path: JsonPath,
    /// The fields that the schema knows in its place.
    pub known: Vec<&'static str>,
}

impl UnknownField {
    /// Returns the path without indexes: `entries[].note`.
    pub fn without_indexes(&self) -> String {
        let mut shown = String::new();
        for step in &self.path.0 {
            match step {
                PathStep::Index(_) => shown.push_str("[]"),
                PathStep::Key(key) if shown.is_empty() => shown.push_str(key),
                PathStep::Key(key) => {
                    shown.push('.');
                    shown.push_str(key);
                }
            }
        }
        shown
    }
}

/// Calls `found` with each field that the schema of a blob does not know, on every level.
///
/// Printing omits those fields except with [`Arrangement::Complete`](crate::Arrangement::Complete). Blobs with other
/// schemas have none.
pub fn fields(schema: &str, blob: Raw<'_>, found: &mut dyn FnMut(UnknownField)) {
    let Some(shapes) = BlobSchema::named(schema).map(|schema| schema.shape.fields()) else { return };
    let known = printed(schema);
    let mut path = JsonPath::default();
    for (key, value) in blob.members() {
        if !known.iter().any(|name| name.eq_ignore_ascii_case(&key)) {
            found(UnknownField { path: path.then(key.into_owned()), known: known.to_vec() });
        } else if let Some((_, shape)) = shapes.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)) {
            path.0.push(PathStep::from(key.into_owned()));
            walk(*shape, value, &mut path, found);
            path.0.pop();
        }
    }
}

/// Walks the value at `path` as far as its shape is known.
fn walk(shape: Shape, value: Raw<'_>, path: &mut JsonPath, found: &mut dyn FnMut(UnknownField)) {
    match shape {
        Shape::List(item) => {
            for (index, value) in value.items().enumerate() {
                path.0.push(PathStep::Index(index));
                walk(*item, value, path, found);
                path.0.pop();
            }
        }
        Shape::Object(shapes) => {
            for (key, value) in value.members() {
                match shapes.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)) {
                    Some((_, shape)) => {
                        path.0.push(PathStep::from(key.into_owned()));
                        walk(*shape, value, path, found);
                        path.0.pop();
                    }
                    None => found(UnknownField {
                        path: path.then(key.into_owned()),
                        known: shapes.iter().map(|(name, _)| *name).collect(),
                    }),
                }
            }
        }
        Shape::Any | Shape::Str | Shape::Bool | Shape::Int | Shape::Base64 | Shape::Map(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(schema: &str, text: &str) -> Vec<String> {
        let mut all = Vec::new();
        fields(schema, Raw::parse(text, 50).unwrap(), &mut |field| all.push(field.without_indexes()));
        all
    }

    #[test]
    fn unknown_fields_are_found_at_every_level() {
        let channel = r#"{"schema":"olm.channel","Name":"c","package":"p","note":1,
            "entries":[{"name":"a","why":""},{"name":"b","skips":[],"why":{}}],"properties":[{"type":"t","value":{"x":1},"more":1}]}"#;
        assert_eq!(found(CHANNEL, channel), ["note", "entries[].why", "entries[].why", "properties[].more"]);
        let package =
            r#"{"schema":"olm.package","name":"p","package":"p","icon":{"base64data":"","mediatype":"","size":1}}"#;
        assert_eq!(found(PACKAGE, package), ["package", "icon.size"]);
        let deprecations = r#"{"entries":[{"reference":{"schema":"s","uid":1},"message":"m","since":1}]}"#;
        assert_eq!(found(DEPRECATIONS, deprecations), ["entries[].reference.uid", "entries[].since"]);
        assert_eq!(found("custom", r#"{"schema":"custom","anything":1}"#), Vec::<String>::new());
    }
}
