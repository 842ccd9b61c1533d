//! Properties of bundles: their types, and the shapes of their values.

use std::borrow::Cow;

use crate::json::{Raw, Text};
use crate::shape::Shape;

/// The package and version of a bundle.
pub const PACKAGE: &str = "olm.package";
/// A package that a bundle requires.
pub const PACKAGE_REQUIRED: &str = "olm.package.required";
/// An API that a bundle provides.
pub const GVK: &str = "olm.gvk";
/// An API that a bundle requires.
pub const GVK_REQUIRED: &str = "olm.gvk.required";
/// A manifest of a bundle.
pub const BUNDLE_OBJECT: &str = "olm.bundle.object";
/// Metadata for consoles.
pub const CSV_METADATA: &str = "olm.csv.metadata";
/// A channel of a bundle, in the legacy format.
pub const CHANNEL: &str = "olm.channel";
/// A skipped bundle, in the legacy format.
pub const SKIPS: &str = "olm.skips";
/// A version range that upgrades directly, in the legacy format.
pub const SKIP_RANGE: &str = "olm.skipRange";

/// Iterates over the properties in a bundle's text: type, and value if there is one.
pub fn of(bundle: Raw<'_>) -> impl Iterator<Item = (Cow<'_, str>, Option<Raw<'_>>)> {
    bundle.get_items("properties").map(parts)
}

/// Returns the properties of a bundle that servers send: all except manifests and metadata.
pub fn served(bundle: Raw<'_>) -> Text {
    let kept = of(bundle).filter(|(kind, _)| kind != BUNDLE_OBJECT && kind != CSV_METADATA);
    Text::objects(kept, |(kind, value), property| {
        property.string("type", &kind).value("value", value.unwrap_or(Text::null().raw()));
    })
}

/// Returns the type and the value of a property.
pub(crate) fn parts(property: Raw<'_>) -> (Cow<'_, str>, Option<Raw<'_>>) {
    let [kind, value] = property.get_all(["type", "value"]);
    (kind.and_then(Raw::as_str).unwrap_or_default(), value)
}

/// Returns the shape of the values of a property type.
pub fn shape(kind: &str) -> Shape {
    match kind {
        PACKAGE => Shape::Object(&[("packageName", Shape::Str), ("version", Shape::Str), ("release", Shape::Str)]),
        PACKAGE_REQUIRED => Shape::Object(&[("packageName", Shape::Str), ("versionRange", Shape::Str)]),
        GVK | GVK_REQUIRED => Shape::Object(&[("group", Shape::Str), ("kind", Shape::Str), ("version", Shape::Str)]),
        BUNDLE_OBJECT => Shape::Object(&[("data", Shape::Base64), ("ref", Shape::Str)]),
        CHANNEL => Shape::Object(&[("channelName", Shape::Str), ("priority", Shape::Int)]),
        CSV_METADATA => CSV_METADATA_SHAPE,
        _ => Shape::Any,
    }
}

/// A channel in the legacy format.
pub const FIRST_FORM_CHANNEL: Shape = Shape::Object(&[("name", Shape::Str), ("replaces", Shape::Str)]);
/// A skipped bundle or a version range in the legacy format.
pub const FIRST_FORM_TEXT: Shape = Shape::Str;

const STR: Shape = Shape::Str;
const STRINGS: Shape = Shape::List(&Shape::Str);
const STRING_MAP: Shape = Shape::Map(&Shape::Str);

const RESOURCES: Shape = Shape::List(&Shape::Object(&[("name", STR), ("kind", STR), ("version", STR)]));
const DESCRIPTORS: Shape = Shape::List(&Shape::Object(&[
    ("path", STR),
    ("displayName", STR),
    ("description", STR),
    ("x-descriptors", STRINGS),
]));
const CRD: Shape = Shape::Object(&[
    ("name", STR),
    ("version", STR),
    ("kind", STR),
    ("displayName", STR),
    ("description", STR),
    ("resources", RESOURCES),
    ("statusDescriptors", DESCRIPTORS),
    ("specDescriptors", DESCRIPTORS),
    ("actionDescriptors", DESCRIPTORS),
]);
const API_SERVICE: Shape = Shape::Object(&[
    ("name", STR),
    ("group", STR),
    ("version", STR),
    ("kind", STR),
    ("deploymentName", STR),
    ("containerPort", Shape::Int),
    ("displayName", STR),
    ("description", STR),
    ("resources", RESOURCES),
    ("statusDescriptors", DESCRIPTORS),
    ("specDescriptors", DESCRIPTORS),
    ("actionDescriptors", DESCRIPTORS),
]);

/// Descriptions of CRDs, as in a CSV.
pub(crate) const CRD_DESCRIPTIONS: Shape =
    Shape::Object(&[("owned", Shape::List(&CRD)), ("required", Shape::List(&CRD))]);
/// Descriptions of API services, as in a CSV.
pub(crate) const API_SERVICE_DEFINITIONS: Shape =
    Shape::Object(&[("owned", Shape::List(&API_SERVICE)), ("required", Shape::List(&API_SERVICE))]);
/// Install modes, as in a CSV.
pub(crate) const INSTALL_MODES: Shape = Shape::List(&Shape::Object(&[("type", STR), ("supported", Shape::Bool)]));
/// Links, as in a CSV.
pub const LINKS: Shape = Shape::List(&LINK);
/// A link, as in a CSV.
pub const LINK: Shape = Shape::Object(&[("name", STR), ("url", STR)]);
/// Maintainers, as in a CSV.
pub(crate) const MAINTAINERS: Shape = Shape::List(&Shape::Object(&[("name", STR), ("email", STR)]));
/// APIs of the cluster, as in a CSV.
pub(crate) const NATIVE_APIS: Shape = Shape::List(&Shape::Object(&[("group", STR), ("version", STR), ("kind", STR)]));

const CSV_METADATA_SHAPE: Shape = Shape::Object(&[
    ("annotations", STRING_MAP),
    ("apiServiceDefinitions", API_SERVICE_DEFINITIONS),
    ("crdDescriptions", CRD_DESCRIPTIONS),
    ("description", STR),
    ("displayName", STR),
    ("installModes", INSTALL_MODES),
    ("keywords", STRINGS),
    ("labels", STRING_MAP),
    ("links", LINKS),
    ("maintainers", MAINTAINERS),
    ("maturity", STR),
    ("minKubeVersion", STR),
    ("nativeAPIs", NATIVE_APIS),
    ("provider", LINK),
]);
