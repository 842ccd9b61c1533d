//! The blobs of a catalog.

use fbc::schema::BLOBS;

use crate::schema::document::{Constraint, DocumentCategory, FieldDescription, SchemaDocument, field};
use crate::schema::patterns;

const REQUIRED: &[Constraint] = &[Constraint::Required];
const NON_EMPTY: &[Constraint] = &[Constraint::Required, Constraint::NonEmpty];

pub(crate) fn documents() -> Vec<SchemaDocument> {
    let blob = |name: &'static str, about, example, fields: &'static [FieldDescription], extra| {
        let known = BLOBS.iter().find(|blob| blob.name == name);
        known.map(|known| SchemaDocument {
            kind: DocumentCategory::Blob,
            name,
            about,
            example,
            envelope: known.envelope,
            shape: known.shape,
            fields,
            extra,
            closed: false,
        })
    };
    let all = [
        blob(
            "olm.package",
            "A package: its name, its description and its default channel. A catalog has exactly one olm.package per \
              package",
            r#"{"schema": "olm.package", "name": "etcd", "defaultChannel": "stable", "description": "A key-value store"}"#,
            PACKAGE,
            "{}",
        ),
        blob(
            "olm.channel",
            "A channel of a package: its bundles and the upgrade edges between them",
            r#"{"schema": "olm.channel", "package": "etcd", "name": "stable", "entries": [{"name": "etcd.v1.0.0"}, {"name": "etcd.v1.1.0", "replaces": "etcd.v1.0.0"}]}"#,
            CHANNEL,
            CHANNEL_EXTRA,
        ),
        blob(
            "olm.bundle",
            "A bundle: one version of an operator, with the image that clusters install it from",
            r#"{"schema": "olm.bundle", "package": "etcd", "name": "etcd.v1.0.0", "image": "quay.io/example/etcd-bundle:v1.0.0", "properties": [{"type": "olm.package", "value": {"packageName": "etcd", "version": "1.0.0"}}]}"#,
            BUNDLE,
            BUNDLE_EXTRA,
        ),
        blob(
            "olm.deprecations",
            "The deprecated package, channels and bundles, with messages for users. A package has at most one",
            r#"{"schema": "olm.deprecations", "package": "etcd", "entries": [{"reference": {"schema": "olm.bundle", "name": "etcd.v1.0.0"}, "message": "upgrade to etcd.v1.1.0"}]}"#,
            DEPRECATIONS,
            DEPRECATIONS_EXTRA,
        ),
    ];
    all.into_iter().flatten().collect()
}

const SCHEMA: FieldDescription = field("schema", "The schema of this blob", "", NON_EMPTY);
const OF_PACKAGE: FieldDescription = field("package", "The package that this blob belongs to", "\"etcd\"", NON_EMPTY);
const PROPERTIES: FieldDescription =
    field("properties", "Properties; the type of each determines the meaning of its value", "[]", &[]);
const PROPERTY_TYPE: FieldDescription =
    field("properties.type", "The type of the property; types that start with olm. are reserved", "\"olm.gvk\"", &[]);

const PACKAGE: &[FieldDescription] = &[
    SCHEMA,
    field(
        "name",
        "The name of the package, a DNS label of at most 63 characters",
        "\"etcd\"",
        &[Constraint::Required, Constraint::Pattern(patterns::LABEL)],
    ),
    field("defaultChannel", "The channel that a subscription without a channel follows", "\"stable\"", NON_EMPTY),
    field("icon", "The icon that consoles show", "", &[]),
    field("icon.base64data", "The image data, as base64", "\"PHN2Zz48L3N2Zz4=\"", &[]),
    field("icon.mediatype", "The media type of the image data", "\"image/svg+xml\"", &[]),
    field("description", "A description of the operator, in Markdown", "\"A key-value store\"", &[]),
    PROPERTIES,
    PROPERTY_TYPE,
    field("properties.value", "The value of the property", "{\"any\": \"value\"}", &[]),
];

const CHANNEL: &[FieldDescription] = &[
    SCHEMA,
    OF_PACKAGE,
    field("name", "The name of the channel that users subscribe to", "\"stable\"", NON_EMPTY),
    field(
        "entries",
        "The bundles of the channel. Exactly one is the head: no other entry replaces or skips it. All other entries that \
          are not skipped are reachable from the head through `replaces`",
        r#"[{"name": "etcd.v1.0.0"}, {"name": "etcd.v1.1.0", "replaces": "etcd.v1.0.0"}]"#,
        NON_EMPTY,
    ),
    field("entries.name", "The name of a bundle of the same package", "\"etcd.v1.1.0\"", NON_EMPTY),
    field(
        "entries.replaces",
        "The bundle that upgrades to this one. The tail of a channel may replace a bundle that the catalog no longer has",
        "\"etcd.v1.0.0\"",
        &[],
    ),
    field(
        "entries.skips",
        "Bundles that upgrades to this one may skip. A cluster that runs one of them upgrades to this one directly",
        "[\"etcd.v1.0.1\", \"etcd.v1.0.2\"]",
        &[],
    ),
    field(
        "entries.skipRange",
        "A range of versions that upgrade to this bundle directly. It adds upgrade edges, but does not link the chain: \
         a channel whose entries are linked by ranges alone has several heads",
        "\">=1.0.0 <1.1.0\"",
        &[Constraint::Pattern(patterns::RANGE)],
    ),
    PROPERTIES,
    PROPERTY_TYPE,
    field("properties.value", "The value of the property", "{\"any\": \"value\"}", &[]),
];

/// No entry is listed twice, and no skipped name is empty.
const CHANNEL_EXTRA: &str = r#"{"properties": {"entries": {
    "uniqueItems": true,
    "items": {"properties": {"skips": {"items": {"type": "string", "minLength": 1}}}}
}}}"#;

const BUNDLE: &[FieldDescription] = &[
    SCHEMA,
    OF_PACKAGE,
    field(
        "name",
        "The name of the bundle, equal to the name of its ClusterServiceVersion",
        "\"etcd.v1.0.0\"",
        NON_EMPTY,
    ),
    field(
        "image",
        "The image that clusters install the bundle from. Required unless the bundle contains its objects",
        "\"quay.io/example/etcd-bundle@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"",
        &[Constraint::Pattern(patterns::PULL_SPEC)],
    ),
    field(
        "properties",
        "Properties of the bundle: its version (exactly one olm.package), the APIs it provides, its dependencies, and metadata for consoles",
        r#"[{"type": "olm.package", "value": {"packageName": "etcd", "version": "1.0.0"}}]"#,
        REQUIRED,
    ),
    PROPERTY_TYPE,
    field("properties.value", "The value of the property; 'opm explain' lists the known types", "", REQUIRED),
    field("relatedImages", "The images that the operator runs, so that mirrors copy them", "", &[]),
    field("relatedImages.name", "The purpose of the image; may be empty", "\"operator\"", &[]),
    field(
        "relatedImages.image",
        "The pull spec of the image",
        "\"quay.io/example/etcd:v1.0.0\"",
        &[Constraint::Pattern(patterns::PULL_SPEC)],
    ),
];

/// A bundle states its version once, and has an image or objects.
const BUNDLE_EXTRA: &str = r#"{
    "properties": {"properties": {
        "contains": {"type": "object", "required": ["type"], "properties": {"type": {"const": "olm.package"}}},
        "minContains": 1,
        "maxContains": 1
    }},
    "anyOf": [
        {"required": ["image"], "properties": {"image": {"type": "string", "minLength": 1}}},
        {"properties": {"properties": {
            "contains": {"type": "object", "required": ["type"], "properties": {"type": {"const": "olm.bundle.object"}}}
        }}}
    ]
}"#;

const DEPRECATIONS: &[FieldDescription] = &[
    SCHEMA,
    OF_PACKAGE,
    field("name", "Unused", "\"\"", &[]),
    field("entries", "The deprecations, one per reference", "", &[]),
    field("entries.reference", "The deprecated package, channel or bundle", "", REQUIRED),
    field(
        "entries.reference.schema",
        "The schema of the deprecated blob",
        "\"olm.bundle\"",
        &[Constraint::Required, Constraint::OneOf(&["olm.package", "olm.channel", "olm.bundle"])],
    ),
    field(
        "entries.reference.name",
        "The name of the channel or bundle; omit it for the package",
        "\"etcd.v1.0.0\"",
        &[],
    ),
    field(
        "entries.message",
        "The message for users: the reason, and the replacement",
        "\"upgrade to etcd.v1.1.0\"",
        NON_EMPTY,
    ),
];

/// A package is referenced without a name, everything else by name; no reference repeats.
const DEPRECATIONS_EXTRA: &str = r#"{"properties": {"entries": {"uniqueItems": true, "items": {"properties": {"reference": {
    "if": {"required": ["schema"], "properties": {"schema": {"const": "olm.package"}}},
    "then": {"properties": {"name": {"enum": ["", null]}}},
    "else": {"required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}}
}}}}}}"#;
