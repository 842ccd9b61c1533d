//! The fields of known blobs: one table for decoding, rules and documentation.

use crate::blob::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE};
use crate::shape::Shape;

/// A schema of blobs, with its fields.
#[derive(Debug, Clone, Copy)]
pub struct BlobSchema {
    /// The value of the `schema` field.
    pub name: &'static str,
    /// The envelope fields that such blobs use; all are strings.
    pub envelope: &'static [&'static str],
    /// All other fields.
    pub shape: Shape,
}

/// The known schemas, in catalog order.
pub const BLOBS: [BlobSchema; 4] = [
    BlobSchema { name: PACKAGE, envelope: &["schema", "name"], shape: PACKAGE_SHAPE },
    BlobSchema { name: CHANNEL, envelope: ENVELOPE, shape: CHANNEL_SHAPE },
    BlobSchema { name: BUNDLE, envelope: ENVELOPE, shape: BUNDLE_SHAPE },
    BlobSchema { name: DEPRECATIONS, envelope: ENVELOPE, shape: DEPRECATIONS_SHAPE },
];

/// The fields that identify a blob.
pub(crate) const ENVELOPE: &[&str] = &["schema", "package", "name"];

/// A property of a blob; its type determines the shape of its value.
pub(crate) const PROPERTY: Shape = Shape::Object(&[("type", Shape::Str), ("value", Shape::Any)]);

const PROPERTIES: Shape = Shape::List(&PROPERTY);

pub(crate) const PACKAGE_SHAPE: Shape = Shape::Object(&[
    ("defaultChannel", Shape::Str),
    ("icon", Shape::Object(&[("base64data", Shape::Base64), ("mediatype", Shape::Str)])),
    ("description", Shape::Str),
    ("properties", PROPERTIES),
]);
pub(crate) const CHANNEL_SHAPE: Shape = Shape::Object(&[
    (
        "entries",
        Shape::List(&Shape::Object(&[
            ("name", Shape::Str),
            ("replaces", Shape::Str),
            ("skips", Shape::List(&Shape::Str)),
            ("skipRange", Shape::Str),
        ])),
    ),
    ("properties", PROPERTIES),
]);
pub(crate) const BUNDLE_SHAPE: Shape = Shape::Object(&[
    ("image", Shape::Str),
    ("properties", PROPERTIES),
    ("relatedImages", Shape::List(&Shape::Object(&[("name", Shape::Str), ("image", Shape::Str)]))),
]);
pub(crate) const DEPRECATIONS_SHAPE: Shape = Shape::Object(&[(
    "entries",
    Shape::List(&Shape::Object(&[
        ("reference", Shape::Object(&[("schema", Shape::Str), ("name", Shape::Str)])),
        ("message", Shape::Str),
    ])),
)]);

impl BlobSchema {
    /// Returns the schema with this name, if it is known.
    pub fn named(name: &str) -> Option<&'static BlobSchema> {
        BLOBS.iter().find(|schema| schema.name == name)
    }

    /// Returns the names of all fields.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.envelope.iter().copied().chain(self.shape.fields().iter().map(|(name, _)| *name))
    }
}
