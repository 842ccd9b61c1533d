//! The kinds of templates, and the fields of templates and of the files that commands read beside them.

use crate::shape::Shape;

/// The kinds of templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateKind {
    /// A catalog that lists its bundles by image.
    Basic,
    /// Lists of bundles, ordered by version.
    Semver,
    /// A catalog with substitutes for some bundles.
    Substitutes,
}

impl TemplateKind {
    /// All kinds, by name.
    pub const ALL: [TemplateKind; 3] = [TemplateKind::Basic, TemplateKind::Semver, TemplateKind::Substitutes];

    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TemplateKind::Basic => "basic",
            TemplateKind::Semver => "semver",
            TemplateKind::Substitutes => "substitutes",
        }
    }

    /// Returns the schema of such templates.
    pub fn schema(self) -> &'static str {
        match self {
            TemplateKind::Basic => "olm.template.basic",
            TemplateKind::Semver => "olm.semver",
            TemplateKind::Substitutes => "olm.template.substitutes",
        }
    }

    /// Returns the fields of such templates, except the schema.
    pub fn shape(self) -> Shape {
        match self {
            TemplateKind::Basic => BASIC,
            TemplateKind::Semver => SEMVER,
            TemplateKind::Substitutes => SUBSTITUTES,
        }
    }

    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<TemplateKind> {
        TemplateKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The fields of a basic template.
pub const BASIC: Shape = Shape::Object(&[("entries", Shape::List(&Shape::Any))]);

const IMAGES: Shape = Shape::List(&Shape::Object(&[("image", Shape::Str)]));
const ARCHETYPE: Shape = Shape::Object(&[("bundles", IMAGES)]);
/// The fields of a semver template.
pub const SEMVER: Shape = Shape::Object(&[
    ("schema", Shape::Str),
    ("generateMajorChannels", Shape::Bool),
    ("generateMinorChannels", Shape::Bool),
    ("defaultChannelTypePreference", Shape::Str),
    ("candidate", ARCHETYPE),
    ("fast", ARCHETYPE),
    ("stable", ARCHETYPE),
]);

/// The fields of a substitutes template.
pub const SUBSTITUTES: Shape = Shape::Object(&[
    ("entries", Shape::List(&Shape::Any)),
    ("substitutions", Shape::List(&Shape::Object(&[("name", Shape::Str), ("base", Shape::Str)]))),
]);

/// The schema of the catalogs file.
pub const CATALOGS_SCHEMA: &str = "olm.composite.catalogs";
/// The schema of the components file.
pub const COMPOSITE_SCHEMA: &str = "olm.composite";

/// The fields of the catalogs file.
pub const CATALOGS: Shape = Shape::Object(&[
    ("schema", Shape::Str),
    (
        "catalogs",
        Shape::List(&Shape::Object(&[
            ("name", Shape::Str),
            ("destination", Shape::Object(&[("workingDir", Shape::Str)])),
            ("builders", Shape::List(&Shape::Str)),
        ])),
    ),
]);
const CONFIG: Shape = Shape::Object(&[
    ("input", Shape::Str),
    ("output", Shape::Str),
    ("command", Shape::Str),
    ("args", Shape::List(&Shape::Str)),
]);
/// The fields of the components file.
pub const COMPOSITE: Shape = Shape::Object(&[
    ("schema", Shape::Str),
    (
        "components",
        Shape::List(&Shape::Object(&[
            ("name", Shape::Str),
            ("destination", Shape::Object(&[("path", Shape::Str)])),
            (
                "strategy",
                Shape::Object(&[
                    ("name", Shape::Str),
                    ("template", Shape::Object(&[("schema", Shape::Str), ("config", CONFIG)])),
                ]),
            ),
        ])),
    ),
]);

const STRINGS: Shape = Shape::List(&Shape::Str);
const INCLUDED_CHANNEL: Shape =
    Shape::Object(&[("name", Shape::Str), ("range", Shape::Str), ("versions", STRINGS), ("bundles", STRINGS)]);
const INCLUDED_PACKAGE: Shape = Shape::Object(&[
    ("name", Shape::Str),
    ("range", Shape::Str),
    ("versions", STRINGS),
    ("bundles", STRINGS),
    ("channels", Shape::List(&INCLUDED_CHANNEL)),
]);
/// The fields of an include file.
pub const INCLUDE: Shape = Shape::Object(&[("packages", Shape::List(&INCLUDED_PACKAGE))]);
