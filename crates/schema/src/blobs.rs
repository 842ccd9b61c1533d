//! The blobs of a catalog.

use fbc::schema::BLOBS;

use crate::document::{Document, Field, Kind, Must, field};
use crate::patterns;

const GIVEN: &[Must] = &[Must::BeGiven];
const NAMED: &[Must] = &[Must::BeGiven, Must::BeFilled];

pub(crate) fn documents() -> Vec<Document> {
    let blob = |name: &'static str, about, example, fields: &'static [Field], also| {
        let known = BLOBS.iter().find(|blob| blob.name == name);
        known.map(|known| Document {
            kind: Kind::Blob,
            name,
            about,
            example,
            envelope: known.envelope,
            shape: known.shape,
            fields,
            also,
            closed: false,
        })
    };
    let all = [
        blob(
            "olm.package",
            "A package: its name, what it is, and the channel that clusters follow unless another is asked for. \
             Each package of a catalog has exactly one",
            r#"{"schema": "olm.package", "name": "etcd", "defaultChannel": "stable", "description": "A key-value store"}"#,
            PACKAGE,
            "{}",
        ),
        blob(
            "olm.channel",
            "A channel of a package: the bundles that are in it, and how clusters upgrade from one to the next",
            r#"{"schema": "olm.channel", "package": "etcd", "name": "stable", "entries": [{"name": "etcd.v1.0.0"}, {"name": "etcd.v1.1.0", "replaces": "etcd.v1.0.0"}]}"#,
            CHANNEL,
            CHANNEL_ALSO,
        ),
        blob(
            "olm.bundle",
            "A bundle: one version of an operator, with the image it is installed from",
            r#"{"schema": "olm.bundle", "package": "etcd", "name": "etcd.v1.0.0", "image": "quay.io/example/etcd-bundle:v1.0.0", "properties": [{"type": "olm.package", "value": {"packageName": "etcd", "version": "1.0.0"}}]}"#,
            BUNDLE,
            BUNDLE_ALSO,
        ),
        blob(
            "olm.deprecations",
            "What is deprecated in a package, with what users are shown. A package has at most one",
            r#"{"schema": "olm.deprecations", "package": "etcd", "entries": [{"reference": {"schema": "olm.bundle", "name": "etcd.v1.0.0"}, "message": "upgrade to etcd.v1.1.0"}]}"#,
            DEPRECATIONS,
            DEPRECATIONS_ALSO,
        ),
    ];
    all.into_iter().flatten().collect()
}

const SCHEMA: Field = field("schema", "What this blob is", "", NAMED);
const OF_PACKAGE: Field = field("package", "The package that this belongs to", "\"etcd\"", NAMED);
const PROPERTIES: Field = field("properties", "More facts, each with a type that says what its value means", "[]", &[]);
const PROPERTY_TYPE: Field =
    field("properties.type", "What the value means; types that start with olm. are reserved", "\"olm.gvk\"", &[]);

const PACKAGE: &[Field] = &[
    SCHEMA,
    field(
        "name",
        "The name of the package, a DNS label of at most 63 characters",
        "\"etcd\"",
        &[Must::BeGiven, Must::Match(patterns::LABEL)],
    ),
    field("defaultChannel", "The channel that clusters follow unless they ask for another", "\"stable\"", NAMED),
    field("icon", "The picture that consoles show", "", &[]),
    field("icon.base64data", "The picture itself, as base64", "\"PHN2Zz48L3N2Zz4=\"", &[]),
    field("icon.mediatype", "The media type of the picture", "\"image/svg+xml\"", &[]),
    field("description", "What the operator is, in Markdown", "\"A key-value store\"", &[]),
    PROPERTIES,
    PROPERTY_TYPE,
    field("properties.value", "The fact itself", "{\"any\": \"value\"}", &[]),
];

const CHANNEL: &[Field] = &[
    SCHEMA,
    OF_PACKAGE,
    field("name", "The name of the channel, which users subscribe to", "\"stable\"", NAMED),
    field(
        "entries",
        "The bundles of the channel. Exactly one is its head: no other replaces or skips it. From the head, `replaces` \
         leads to all others that are not skipped",
        r#"[{"name": "etcd.v1.0.0"}, {"name": "etcd.v1.1.0", "replaces": "etcd.v1.0.0"}]"#,
        NAMED,
    ),
    field("entries.name", "The name of a bundle of the same package", "\"etcd.v1.1.0\"", NAMED),
    field(
        "entries.replaces",
        "The bundle that clusters upgrade from. The last one of a channel may name a bundle that is not there any more",
        "\"etcd.v1.0.0\"",
        &[],
    ),
    field(
        "entries.skips",
        "Bundles that clusters can leave out on the way to this one. Who has one of them installed upgrades to this one",
        "[\"etcd.v1.0.1\", \"etcd.v1.0.2\"]",
        &[],
    ),
    field(
        "entries.skipRange",
        "A range of versions that upgrade to this bundle directly. It adds ways to upgrade, but no place in the chain: \
         a channel whose entries are linked by ranges alone has several heads",
        "\">=1.0.0 <1.1.0\"",
        &[Must::Match(patterns::RANGE)],
    ),
    PROPERTIES,
    PROPERTY_TYPE,
    field("properties.value", "The fact itself", "{\"any\": \"value\"}", &[]),
];

/// No bundle is listed twice, and no name that is skipped is empty.
const CHANNEL_ALSO: &str = r#"{"properties": {"entries": {
    "uniqueItems": true,
    "items": {"properties": {"skips": {"items": {"type": "string", "minLength": 1}}}}
}}}"#;

const BUNDLE: &[Field] = &[
    SCHEMA,
    OF_PACKAGE,
    field("name", "The name of the bundle, which is that of its ClusterServiceVersion", "\"etcd.v1.0.0\"", NAMED),
    field(
        "image",
        "The image that the bundle is installed from. It may be missing only where the bundle carries its objects",
        "\"quay.io/example/etcd-bundle@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"",
        &[Must::Match(patterns::PULL_SPEC)],
    ),
    field(
        "properties",
        "Facts about the bundle: its version (one olm.package), what it offers and needs, what consoles show",
        r#"[{"type": "olm.package", "value": {"packageName": "etcd", "version": "1.0.0"}}]"#,
        GIVEN,
    ),
    PROPERTY_TYPE,
    field("properties.value", "The fact itself; 'opm explain' knows the types", "", GIVEN),
    field("relatedImages", "The images that the operator runs, for those who mirror it", "", &[]),
    field("relatedImages.name", "What the image is for; may be empty", "\"operator\"", &[]),
    field(
        "relatedImages.image",
        "The pull spec of the image",
        "\"quay.io/example/etcd:v1.0.0\"",
        &[Must::Match(patterns::PULL_SPEC)],
    ),
];

/// A bundle states its version once, and has an image or objects.
const BUNDLE_ALSO: &str = r#"{
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

const DEPRECATIONS: &[Field] = &[
    SCHEMA,
    OF_PACKAGE,
    field("name", "Not used", "\"\"", &[]),
    field("entries", "What is deprecated, each once", "", &[]),
    field("entries.reference", "What is deprecated: the package, or one of its channels or bundles", "", GIVEN),
    field(
        "entries.reference.schema",
        "A package, a channel or a bundle",
        "\"olm.bundle\"",
        &[Must::BeGiven, Must::BeOneOf(&["olm.package", "olm.channel", "olm.bundle"])],
    ),
    field(
        "entries.reference.name",
        "The name of the channel or bundle; left out for the package",
        "\"etcd.v1.0.0\"",
        &[],
    ),
    field("entries.message", "What users are shown: why, and what to use instead", "\"upgrade to etcd.v1.1.0\"", NAMED),
];

/// A package is deprecated without a name, and all else by one; nothing twice.
const DEPRECATIONS_ALSO: &str = r#"{"properties": {"entries": {"uniqueItems": true, "items": {"properties": {"reference": {
    "if": {"required": ["schema"], "properties": {"schema": {"const": "olm.package"}}},
    "then": {"properties": {"name": {"enum": ["", null]}}},
    "else": {"required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}}
}}}}}}"#;
