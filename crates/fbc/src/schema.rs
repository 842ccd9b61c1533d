//! The fields of the blobs that are known: one table for decoding, for rules and for what is printed about them.

use crate::blob::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE};
use crate::shape::Shape;

/// A schema of blobs, with its fields.
#[derive(Debug, Clone, Copy)]
pub struct BlobSchema {
    /// Its name, as blobs state it.
    pub name: &'static str,
    /// The fields of the envelope that such blobs use; all of them are strings.
    pub envelope: &'static [&'static str],
    /// All other fields.
    pub shape: Shape,
}

/// The schemas that are known, in the order in which a catalog has them.
pub const BLOBS: [BlobSchema; 4] = [
    BlobSchema { name: PACKAGE, envelope: &["schema", "name"], shape: PACKAGE_SHAPE },
    BlobSchema { name: CHANNEL, envelope: ENVELOPE, shape: CHANNEL_SHAPE },
    BlobSchema { name: BUNDLE, envelope: ENVELOPE, shape: BUNDLE_SHAPE },
    BlobSchema { name: DEPRECATIONS, envelope: ENVELOPE, shape: DEPRECATIONS_SHAPE },
];

/// The fields that say what a blob is and where it belongs.
pub(crate) const ENVELOPE: &[&str] = &["schema", "package", "name"];

/// A property of a blob; what its value must be follows from the type.
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
    /// Returns the schema of this name, if it is known.
    pub fn named(name: &str) -> Option<&'static BlobSchema> {
        BLOBS.iter().find(|schema| schema.name == name)
    }

    /// Returns the names of all fields.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.envelope.iter().copied().chain(self.shape.fields().iter().map(|(name, _)| *name))
    }
}
