//! Templates, and other files that commands read.

use edit::diff::INCLUDE_SHAPE;
use edit::template::{Kind as Template, composite};

use crate::document::{Document, Field, Kind, Must, field};

const NAMED: &[Must] = &[Must::BeGiven, Must::BeFilled];

pub(crate) fn documents() -> Vec<Document> {
    let of = |kind, name, shape, about, example, fields: &'static [Field], also| Document {
        kind,
        name,
        about,
        example,
        envelope: &[],
        shape,
        fields,
        also,
        closed: false,
    };
    let template = |kind: Template, about, example, fields: &'static [Field], also| {
        let stated = kind.shape().fields().iter().any(|(name, _)| *name == "schema");
        Document {
            envelope: if stated { &[] } else { &["schema"] },
            closed: kind == Template::Semver,
            ..of(Kind::Template, kind.schema(), kind.shape(), about, example, fields, also)
        }
    };
    vec![
        template(
            Template::Basic,
            "A catalog whose bundles are given by their images alone",
            r#"{"schema": "olm.template.basic", "entries": [{"schema": "olm.package", "name": "etcd", "defaultChannel": "stable"}, {"schema": "olm.channel", "package": "etcd", "name": "stable", "entries": [{"name": "etcd.v1.0.0"}]}, {"schema": "olm.bundle", "image": "quay.io/example/etcd-bundle:v1.0.0"}]}"#,
            BASIC,
            BASIC_ALSO,
        ),
        template(
            Template::Semver,
            "Lists of bundles; channels and upgrades follow from their versions",
            r#"{"schema": "olm.semver", "generateMajorChannels": true, "stable": {"bundles": [{"image": "quay.io/example/etcd-bundle:v1.0.0"}]}}"#,
            SEMVER,
            "{}",
        ),
        template(
            Template::Substitutes,
            "A catalog in which some bundles give way to newer builds",
            r#"{"schema": "olm.template.substitutes", "entries": [{"schema": "olm.package", "name": "etcd", "defaultChannel": "stable"}], "substitutions": [{"name": "quay.io/example/etcd-bundle:v1.0.0-1", "base": "etcd.v1.0.0"}]}"#,
            SUBSTITUTES,
            ENTRIES_ALSO,
        ),
        of(
            Kind::Template,
            composite::COMPOSITE_SCHEMA,
            composite::COMPOSITE,
            "The components of a composite template, each of which becomes a file of a catalog",
            r#"{"schema": "olm.composite", "components": [{"name": "first", "destination": {"path": "etcd"}, "strategy": {"name": "basic", "template": {"schema": "olm.builder.basic", "config": {"input": "etcd.yaml", "output": "catalog.yaml"}}}}]}"#,
            COMPOSITE,
            "{}",
        ),
        of(
            Kind::Template,
            composite::CATALOGS_SCHEMA,
            composite::CATALOGS,
            "The catalogs that a composite template makes, and what may take part in making them",
            r#"{"schema": "olm.composite.catalogs", "catalogs": [{"name": "first", "destination": {"workingDir": "catalogs/first"}, "builders": ["olm.builder.basic"]}]}"#,
            CATALOGS,
            "{}",
        ),
        of(
            Kind::File,
            "include",
            INCLUDE_SHAPE,
            "An include file: what 'opm alpha diff --include-file' takes, whether it is new or not",
            r#"{"packages": [{"name": "etcd", "channels": [{"name": "stable", "versions": ["1.0.0"]}]}]}"#,
            INCLUDE,
            INCLUDE_ALSO,
        ),
    ]
}

const ENTRIES: Field =
    field("entries", "The blobs of the catalog", "[{\"schema\": \"olm.package\", \"name\": \"etcd\"}]", &[]);

const BASIC: &[Field] = &[
    field(
        "schema",
        "What this template is",
        "\"olm.template.basic\"",
        &[Must::BeGiven, Must::BeOneOf(&["olm.template.basic"])],
    ),
    ENTRIES,
];
/// A bundle is its image, and all else comes from there.
const BASIC_ALSO: &str = r#"{"properties": {"entries": {"items": {
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
const ENTRIES_ALSO: &str = r#"{"properties": {"entries": {"items": {
    "type": "object",
    "required": ["schema"],
    "properties": {"schema": {"type": "string", "minLength": 1}}
}}}}"#;

const IMAGE: &str = "\"quay.io/example/etcd-bundle:v1.0.0\"";
const SEMVER: &[Field] = &[
    field("schema", "What this template is", "\"olm.semver\"", &[Must::BeGiven, Must::BeOneOf(&["olm.semver"])]),
    field("generateMajorChannels", "Whether there is a channel for each major version, as stable-v1", "true", &[]),
    field("generateMinorChannels", "Whether there is a channel for each minor version, as stable-v1.2", "true", &[]),
    field(
        "defaultChannelTypePreference",
        "Which of the two the default channel is",
        "\"minor\"",
        &[Must::BeOneOf(&["", "major", "minor"])],
    ),
    field("candidate", "Bundles for those who try things out", "", &[]),
    field("candidate.bundles", "The bundles, in any order", "", &[]),
    field("candidate.bundles.image", "The image of a bundle", IMAGE, NAMED),
    field("fast", "Bundles for those who do not wait", "", &[]),
    field("fast.bundles", "The bundles, in any order", "", &[]),
    field("fast.bundles.image", "The image of a bundle", IMAGE, NAMED),
    field("stable", "Bundles for everybody", "", &[]),
    field("stable.bundles", "The bundles, in any order", "", &[]),
    field("stable.bundles.image", "The image of a bundle", IMAGE, NAMED),
];

const SUBSTITUTES: &[Field] = &[
    field(
        "schema",
        "What this template is",
        "\"olm.template.substitutes\"",
        &[Must::BeGiven, Must::BeOneOf(&["olm.template.substitutes"])],
    ),
    ENTRIES,
    field("substitutions", "Which bundles give way to which", "", &[]),
    field("substitutions.name", "The image of the bundle that takes the place", IMAGE, NAMED),
    field("substitutions.base", "The name of the bundle that gives way", "\"etcd.v1.0.0\"", NAMED),
];

const COMPOSITE: &[Field] = &[
    field("schema", "What this file is", "\"olm.composite\"", &[Must::BeGiven, Must::BeOneOf(&["olm.composite"])]),
    field("components", "The components", "", NAMED),
    field("components.name", "The catalog that this is a component of", "\"first\"", NAMED),
    field("components.destination", "Where the file goes", "", &[]),
    field("components.destination.path", "A directory below that of the catalog", "\"etcd\"", &[]),
    field("components.strategy", "How the file is made", "", &[Must::BeGiven]),
    field("components.strategy.name", "A name for people", "\"basic\"", &[]),
    field("components.strategy.template", "What makes it", "", &[Must::BeGiven]),
    field(
        "components.strategy.template.schema",
        "The builder",
        "\"olm.builder.basic\"",
        &[
            Must::BeGiven,
            Must::BeOneOf(&["olm.builder.basic", "olm.builder.semver", "olm.builder.raw", "olm.builder.custom"]),
        ],
    ),
    field("components.strategy.template.config", "What the builder needs", "", &[Must::BeGiven]),
    field("components.strategy.template.config.input", "The template, or the catalog file", "\"etcd.yaml\"", &[]),
    field("components.strategy.template.config.output", "The file, below the directory", "\"catalog.yaml\"", NAMED),
    field("components.strategy.template.config.command", "The program of a custom builder", "\"make\"", &[]),
    field("components.strategy.template.config.args", "Its arguments", "[\"catalog\"]", &[]),
];

const CATALOGS: &[Field] = &[
    field(
        "schema",
        "What this file is",
        "\"olm.composite.catalogs\"",
        &[Must::BeGiven, Must::BeOneOf(&["olm.composite.catalogs"])],
    ),
    field("catalogs", "The catalogs", "", &[]),
    field("catalogs.name", "The name that components use", "\"first\"", NAMED),
    field("catalogs.destination", "Where the catalog is made", "", &[Must::BeGiven]),
    field("catalogs.destination.workingDir", "Its directory", "\"catalogs/first\"", NAMED),
    field("catalogs.builders", "The builders that may take part", "[\"olm.builder.basic\"]", &[]),
];

const INCLUDE: &[Field] = &[
    field("packages", "The packages", "", NAMED),
    field("packages.name", "The package", "\"etcd\"", NAMED),
    field("packages.range", "A range of versions, in every channel", "\">=1.0.0\"", &[]),
    field("packages.versions", "Versions to start from, up to the head of each channel", "[\"1.0.0\"]", &[]),
    field("packages.bundles", "Bundles to start from, up to the head of each channel", "[\"etcd.v1.0.0\"]", &[]),
    field("packages.channels", "Single channels", "", &[]),
    field("packages.channels.name", "The channel", "\"stable\"", NAMED),
    field("packages.channels.range", "A range of versions", "\">=1.0.0\"", &[]),
    field("packages.channels.versions", "Versions to start from, up to the head", "[\"1.0.0\"]", &[]),
    field("packages.channels.bundles", "Bundles to start from, up to the head", "[\"etcd.v1.0.0\"]", &[]),
];
/// A range, or single versions and bundles; not both.
const INCLUDE_ALSO: &str = r##"{
    "properties": {"packages": {"items": {
        "allOf": [{"$ref": "#/$defs/range-or-list"}],
        "properties": {"channels": {"items": {"$ref": "#/$defs/range-or-list"}}}
    }}},
    "$defs": {"range-or-list": {
        "if": {"required": ["range"], "properties": {"range": {"type": "string", "minLength": 1}}},
        "then": {"properties": {"versions": {"maxItems": 0}, "bundles": {"maxItems": 0}}}
    }}
}"##;
