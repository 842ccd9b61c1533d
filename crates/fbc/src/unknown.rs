//! Finds fields that the schema of a blob does not know.

use crate::blob::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE};
use crate::json::Raw;
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

/// Calls `found` with the path of each field that the schema of a blob does not know: `entries[].note`.
///
/// Printing omits those fields except with [`Arrangement::Complete`](crate::Arrangement::Complete). Blobs with other
/// schemas have none.
pub fn fields(schema: &str, blob: Raw<'_>, found: &mut dyn FnMut(String)) {
    let Some(shapes) = BlobSchema::named(schema).map(|schema| schema.shape.fields()) else { return };
    let known = printed(schema);
    let mut path = Vec::new();
    for (key, value) in blob.members() {
        if !known.iter().any(|name| name.eq_ignore_ascii_case(&key)) {
            found(key.into_owned());
        } else if let Some((name, shape)) = shapes.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)) {
            path.push(*name);
            walk(*shape, value, &mut path, found);
            path.pop();
        }
    }
}

/// Walks the value at `path` as far as its shape is known.
fn walk(shape: Shape, value: Raw<'_>, path: &mut Vec<&'static str>, found: &mut dyn FnMut(String)) {
    match shape {
        Shape::List(item) => {
            path.push("[]");
            value.items().for_each(|value| walk(*item, value, path, found));
            path.pop();
        }
        Shape::Object(shapes) => {
            for (key, value) in value.members() {
                match shapes.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)) {
                    Some((name, shape)) => {
                        path.push(name);
                        walk(*shape, value, path, found);
                        path.pop();
                    }
                    None => found(shown(path, &key)),
                }
            }
        }
        Shape::Any | Shape::Str | Shape::Bool | Shape::Int | Shape::Base64 | Shape::Map(_) => {}
    }
}

fn shown(path: &[&str], key: &str) -> String {
    format!("{}.{key}", path.join(".").replace(".[]", "[]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(schema: &str, text: &str) -> Vec<String> {
        let mut all = Vec::new();
        fields(schema, Raw::parse(text, 50).unwrap(), &mut |field| all.push(field));
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
