//! Templates, and other files that commands read.

use fbc::template::{self, TemplateKind};

use crate::schema::document::{Constraint, DocumentCategory, FieldDescription, SchemaDocument, field};

const NON_EMPTY: &[Constraint] = &[Constraint::Required, Constraint::NonEmpty];

pub(crate) fn documents() -> Vec<SchemaDocument> {
    let of = |kind, name, shape, about, example, fields: &'static [FieldDescription], extra| SchemaDocument {
        kind,
        name,
        about,
        example,
        envelope: &[],
        shape,
        fields,
        extra,
        closed: false,
    };
    let template = |kind: TemplateKind, about, example, fields: &'static [FieldDescription], extra| {
        let stated = kind.shape().fields().iter().any(|(name, _)| *name == "schema");
        SchemaDocument {
            envelope: if stated { &[] } else { &["schema"] },
            closed: kind == TemplateKind::Semver,
            ..of(DocumentCategory::Template, kind.schema(), kind.shape(), about, example, fields, extra)
        }
    };
    vec![
        template(
            TemplateKind::Basic,
            "A catalog that lists its bundles by image only",
            r#"{"schema": "olm.template.basic", "entries": [{"schema": "olm.package", "name": "etcd", "defaultChannel": "stable"}, {"schema": "olm.channel", "package": "etcd", "name": "stable", "entries": [{"name": "etcd.v1.0.0"}]}, {"schema": "olm.bundle", "image": "quay.io/example/etcd-bundle:v1.0.0"}]}"#,
            BASIC,
            BASIC_EXTRA,
        ),
        template(
            TemplateKind::Semver,
            "Lists of bundles whose versions determine channels and upgrade edges",
            r#"{"schema": "olm.semver", "generateMajorChannels": true, "stable": {"bundles": [{"image": "quay.io/example/etcd-bundle:v1.0.0"}]}}"#,
            SEMVER,
            "{}",
        ),
        template(
            TemplateKind::Substitutes,
            "A catalog in which newer builds substitute for some bundles",
            r#"{"schema": "olm.template.substitutes", "entries": [{"schema": "olm.package", "name": "etcd", "defaultChannel": "stable"}], "substitutions": [{"name": "quay.io/example/etcd-bundle:v1.0.0-1", "base": "etcd.v1.0.0"}]}"#,
            SUBSTITUTES,
            ENTRIES_EXTRA,
        ),
        of(
            DocumentCategory::Template,
            template::COMPOSITE_SCHEMA,
            template::COMPOSITE,
            "The components of a composite template. Each one generates a file of a catalog",
            r#"{"schema": "olm.composite", "components": [{"name": "first", "destination": {"path": "etcd"}, "strategy": {"name": "basic", "template": {"schema": "olm.builder.basic", "config": {"input": "etcd.yaml", "output": "catalog.yaml"}}}}]}"#,
            COMPOSITE,
            "{}",
        ),
        of(
            DocumentCategory::Template,
            template::CATALOGS_SCHEMA,
            template::CATALOGS,
            "The catalogs that a composite template generates, and the builders that each one allows",
            r#"{"schema": "olm.composite.catalogs", "catalogs": [{"name": "first", "destination": {"workingDir": "catalogs/first"}, "builders": ["olm.builder.basic"]}]}"#,
            CATALOGS,
            "{}",
        ),
        of(
            DocumentCategory::File,
            "include",
            template::INCLUDE,
            "An include file: the bundles that 'opm alpha diff --include-file' includes even if they are not new",
            r#"{"packages": [{"name": "etcd", "channels": [{"name": "stable", "versions": ["1.0.0"]}]}]}"#,
            INCLUDE,
            INCLUDE_EXTRA,
        ),
    ]
}

const ENTRIES: FieldDescription =
    field("entries", "The blobs of the catalog", "[{\"schema\": \"olm.package\", \"name\": \"etcd\"}]", &[]);

const BASIC: &[FieldDescription] = &[
    field(
        "schema",
        "The schema of this template",
        "\"olm.template.basic\"",
        &[Constraint::Required, Constraint::OneOf(&["olm.template.basic"])],
    ),
    ENTRIES,
];
/// A bundle has only an image; the rest is rendered from it.
const BASIC_EXTRA: &str = r#"{"properties": {"entries": {"items": {
    "type": "object",
    "required": ["schema"],
    "properties": {"schema": {"type": "string", "minLength": 1}},
    "if": {"properties": {"schema": {"const": "olm.bundle"}}},
    "then": {
        "required": ["image"],
        "properties": {
            "image": {"type": "string", "minLength": 1},
            "package": {"const": ""},
            "properties": {"maxItems": 0},
            "relatedImages": {"maxItems": 0}
        }
    }
}}}}"#;
const ENTRIES_EXTRA: &str = r#"{"properties": {"entries": {"items": {
    "type": "object",
    "required": ["schema"],
    "properties": {"schema": {"type": "string", "minLength": 1}}
}}}}"#;

const IMAGE: &str = "\"quay.io/example/etcd-bundle:v1.0.0\"";
const SEMVER: &[FieldDescription] = &[
    field(
        "schema",
        "The schema of this template",
        "\"olm.semver\"",
        &[Constraint::Required, Constraint::OneOf(&["olm.semver"])],
    ),
    field(
        "generateMajorChannels",
        "Whether to generate a channel for each major version, such as stable-v1",
        "true",
        &[],
    ),
    field(
        "generateMinorChannels",
        "Whether to generate a channel for each minor version, such as stable-v1.2",
        "true",
        &[],
    ),
    field(
        "defaultChannelTypePreference",
        "The type of channel that becomes the default channel",
        "\"minor\"",
        &[Constraint::OneOf(&["", "major", "minor"])],
    ),
    field("candidate", "Bundles of the candidate channels", "", &[]),
    field("candidate.bundles", "The bundles, in any order", "", &[]),
    field("candidate.bundles.image", "The image of a bundle", IMAGE, NON_EMPTY),
    field("fast", "Bundles of the fast channels", "", &[]),
    field("fast.bundles", "The bundles, in any order", "", &[]),
    field("fast.bundles.image", "The image of a bundle", IMAGE, NON_EMPTY),
    field("stable", "Bundles of the stable channels", "", &[]),
    field("stable.bundles", "The bundles, in any order", "", &[]),
    field("stable.bundles.image", "The image of a bundle", IMAGE, NON_EMPTY),
];

const SUBSTITUTES: &[FieldDescription] = &[
    field(
        "schema",
        "The schema of this template",
        "\"olm.template.substitutes\"",
        &[Constraint::Required, Constraint::OneOf(&["olm.template.substitutes"])],
    ),
    ENTRIES,
    field("substitutions", "The substitutions", "", &[]),
    field("substitutions.name", "The image of the substitute", IMAGE, NON_EMPTY),
    field("substitutions.base", "The name of the bundle to substitute for", "\"etcd.v1.0.0\"", NON_EMPTY),
];

const COMPOSITE: &[FieldDescription] = &[
    field(
        "schema",
        "The schema of this file",
        "\"olm.composite\"",
        &[Constraint::Required, Constraint::OneOf(&["olm.composite"])],
    ),
    field("components", "The components", "", NON_EMPTY),
    field("components.name", "The catalog that the component belongs to", "\"first\"", NON_EMPTY),
    field("components.destination", "The location of the generated file", "", &[]),
    field("components.destination.path", "A directory below the working directory of the catalog", "\"etcd\"", &[]),
    field("components.strategy", "How to generate the file", "", &[Constraint::Required]),
    field("components.strategy.name", "A descriptive name", "\"basic\"", &[]),
    field("components.strategy.template", "The builder and its configuration", "", &[Constraint::Required]),
    field(
        "components.strategy.template.schema",
        "The schema of the builder",
        "\"olm.builder.basic\"",
        &[
            Constraint::Required,
            Constraint::OneOf(&["olm.builder.basic", "olm.builder.semver", "olm.builder.raw", "olm.builder.custom"]),
        ],
    ),
    field("components.strategy.template.config", "The configuration of the builder", "", &[Constraint::Required]),
    field("components.strategy.template.config.input", "The input: a template or a catalog file", "\"etcd.yaml\"", &[]),
    field(
        "components.strategy.template.config.output",
        "The generated file, relative to the destination",
        "\"catalog.yaml\"",
        NON_EMPTY,
    ),
    field("components.strategy.template.config.command", "The command of a custom builder", "\"make\"", &[]),
    field("components.strategy.template.config.args", "The arguments of the command", "[\"catalog\"]", &[]),
];

const CATALOGS: &[FieldDescription] = &[
    field(
        "schema",
        "The schema of this file",
        "\"olm.composite.catalogs\"",
        &[Constraint::Required, Constraint::OneOf(&["olm.composite.catalogs"])],
    ),
    field("catalogs", "The catalogs", "", &[]),
    field("catalogs.name", "The name that components refer to", "\"first\"", NON_EMPTY),
    field("catalogs.destination", "The location of the catalog", "", &[Constraint::Required]),
    field("catalogs.destination.workingDir", "The working directory", "\"catalogs/first\"", NON_EMPTY),
    field("catalogs.builders", "The builders that components may use", "[\"olm.builder.basic\"]", &[]),
];

const INCLUDE: &[FieldDescription] = &[
    field("packages", "The packages", "", NON_EMPTY),
    field("packages.name", "The name of the package", "\"etcd\"", NON_EMPTY),
    field("packages.range", "A version range, applied to every channel", "\">=1.0.0\"", &[]),
    field("packages.versions", "Versions to start from, up to the head of each channel", "[\"1.0.0\"]", &[]),
    field("packages.bundles", "Bundles to start from, up to the head of each channel", "[\"etcd.v1.0.0\"]", &[]),
    field("packages.channels", "Individual channels", "", &[]),
    field("packages.channels.name", "The name of the channel", "\"stable\"", NON_EMPTY),
    field("packages.channels.range", "A version range", "\">=1.0.0\"", &[]),
    field("packages.channels.versions", "Versions to start from, up to the head", "[\"1.0.0\"]", &[]),
    field("packages.channels.bundles", "Bundles to start from, up to the head", "[\"etcd.v1.0.0\"]", &[]),
];
/// A range, or individual versions and bundles; not both.
const INCLUDE_EXTRA: &str = r##"{
    "properties": {"packages": {"items": {
        "allOf": [{"$ref": "#/$defs/range-or-list"}],
        "properties": {"channels": {"items": {"$ref": "#/$defs/range-or-list"}}}
    }}},
    "$defs": {"range-or-list": {
        "if": {"required": ["range"], "properties": {"range": {"type": "string", "minLength": 1}}},
        "then": {"properties": {"versions": {"maxItems": 0}, "bundles": {"maxItems": 0}}}
    }}
}"##;
