//! The `olm.csv.metadata` property: metadata for consoles, extracted from a CSV.

use crate::json::{JsonKind, JsonPath, MemberWriter, Raw, Text};
use crate::property;
use crate::shape::{Mismatch, Shape};
use crate::version::{Version, VersionError};

/// A field of the property's value.
pub(crate) struct MetadataField {
    pub(crate) name: &'static str,
    pub(crate) form: MetadataForm,
    /// Whether the field is written even if it is empty.
    pub(crate) always: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum MetadataForm {
    Str,
    Bool,
    Number,
    Strings,
    StringMap,
    /// Any value, as written.
    Any,
    Object(&'static [MetadataField]),
    List(&'static [MetadataField]),
}

const fn some(name: &'static str, form: MetadataForm) -> MetadataField {
    MetadataField { name, form, always: false }
}

const fn always(name: &'static str, form: MetadataForm) -> MetadataField {
    MetadataField { name, form, always: true }
}

/// The maximum number of fields in an object of the property, so that one pass finds all of them.
pub(crate) const MAX_FIELDS: usize = 16;
/// The parts of a CSV that the fields come from.
const PARTS: [&str; 2] = ["metadata", "spec"];
const SPEC: usize = 1;

const NAMED: &[MetadataField] =
    &[always("name", MetadataForm::Str), always("kind", MetadataForm::Str), always("version", MetadataForm::Str)];
const DESCRIPTOR: &[MetadataField] = &[
    always("path", MetadataForm::Str),
    some("displayName", MetadataForm::Str),
    some("description", MetadataForm::Str),
    some("x-descriptors", MetadataForm::Strings),
    some("value", MetadataForm::Any),
];
const CRD: &[MetadataField] = &[
    always("name", MetadataForm::Str),
    always("version", MetadataForm::Str),
    always("kind", MetadataForm::Str),
    some("displayName", MetadataForm::Str),
    some("description", MetadataForm::Str),
    some("resources", MetadataForm::List(NAMED)),
    some("statusDescriptors", MetadataForm::List(DESCRIPTOR)),
    some("specDescriptors", MetadataForm::List(DESCRIPTOR)),
    some("actionDescriptors", MetadataForm::List(DESCRIPTOR)),
];
const API_SERVICE: &[MetadataField] = &[
    always("name", MetadataForm::Str),
    always("group", MetadataForm::Str),
    always("version", MetadataForm::Str),
    always("kind", MetadataForm::Str),
    some("deploymentName", MetadataForm::Str),
    some("containerPort", MetadataForm::Number),
    some("displayName", MetadataForm::Str),
    some("description", MetadataForm::Str),
    some("resources", MetadataForm::List(NAMED)),
    some("statusDescriptors", MetadataForm::List(DESCRIPTOR)),
    some("specDescriptors", MetadataForm::List(DESCRIPTOR)),
    some("actionDescriptors", MetadataForm::List(DESCRIPTOR)),
];
const LINK: &[MetadataField] = &[some("name", MetadataForm::Str), some("url", MetadataForm::Str)];

/// The fields of the value, with their paths in the CSV.
pub(crate) const FIELDS: &[([&str; 2], MetadataField)] = &[
    (["metadata", "annotations"], some("annotations", MetadataForm::StringMap)),
    (
        ["spec", "apiservicedefinitions"],
        always(
            "apiServiceDefinitions",
            MetadataForm::Object(&[
                some("owned", MetadataForm::List(API_SERVICE)),
                some("required", MetadataForm::List(API_SERVICE)),
            ]),
        ),
    ),
    (
        ["spec", "customresourcedefinitions"],
        always(
            "crdDescriptions",
            MetadataForm::Object(&[some("owned", MetadataForm::List(CRD)), some("required", MetadataForm::List(CRD))]),
        ),
    ),
    (["spec", "description"], some("description", MetadataForm::Str)),
    (["spec", "displayName"], some("displayName", MetadataForm::Str)),
    (
        ["spec", "installModes"],
        some(
            "installModes",
            MetadataForm::List(&[always("type", MetadataForm::Str), always("supported", MetadataForm::Bool)]),
        ),
    ),
    (["spec", "keywords"], some("keywords", MetadataForm::Strings)),
    (["metadata", "labels"], some("labels", MetadataForm::StringMap)),
    (["spec", "links"], some("links", MetadataForm::List(LINK))),
    (
        ["spec", "maintainers"],
        some("maintainers", MetadataForm::List(&[some("name", MetadataForm::Str), some("email", MetadataForm::Str)])),
    ),
    (["spec", "maturity"], some("maturity", MetadataForm::Str)),
    (["spec", "minKubeVersion"], some("minKubeVersion", MetadataForm::Str)),
    (
        ["spec", "nativeAPIs"],
        some(
            "nativeAPIs",
            MetadataForm::List(&[
                always("group", MetadataForm::Str),
                always("version", MetadataForm::Str),
                always("kind", MetadataForm::Str),
            ]),
        ),
    ),
    (["spec", "provider"], always("provider", MetadataForm::Object(LINK))),
];

const CSV: Shape = Shape::Object(&[
    (
        "metadata",
        Shape::Object(&[
            ("name", Shape::Str),
            ("namespace", Shape::Str),
            ("annotations", Shape::Map(&Shape::Str)),
            ("labels", Shape::Map(&Shape::Str)),
        ]),
    ),
    (
        "spec",
        Shape::Object(&[
            ("version", Shape::Str),
            ("replaces", Shape::Str),
            ("skips", Shape::List(&Shape::Str)),
            ("maturity", Shape::Str),
            ("minKubeVersion", Shape::Str),
            ("displayName", Shape::Str),
            ("description", Shape::Str),
            ("keywords", Shape::List(&Shape::Str)),
            ("customresourcedefinitions", property::CRD_DESCRIPTIONS),
            ("apiservicedefinitions", property::API_SERVICE_DEFINITIONS),
            ("nativeAPIs", property::NATIVE_APIS),
            ("maintainers", property::MAINTAINERS),
            ("provider", property::LINK),
            ("links", property::LINKS),
            ("icon", Shape::List(&Shape::Object(&[("base64data", Shape::Str), ("mediatype", Shape::Str)]))),
            ("installModes", property::INSTALL_MODES),
            ("labels", Shape::Map(&Shape::Str)),
            ("annotations", Shape::Map(&Shape::Str)),
            ("relatedImages", Shape::List(&Shape::Object(&[("name", Shape::Str), ("image", Shape::Str)]))),
            ("install", Shape::Object(&[("strategy", Shape::Str)])),
        ]),
    ),
]);

/// Why a CSV has no metadata.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum MetadataError {
    /// A field has the wrong type.
    Field(#[from] Mismatch),
    /// The version is invalid.
    Version(#[from] VersionError),
}

/// Builds the value of the `olm.csv.metadata` property for `csv`.
///
/// # Errors
/// Fails if fields of the CSV have the wrong types, or if its version is invalid.
pub fn from_csv(csv: Raw<'_>) -> Result<Text, MetadataError> {
    CSV.check(csv, &JsonPath::default())?;
    let parts = csv.get_all(PARTS);
    if let Some(version) = parts[SPEC].and_then(|spec| spec.get("version")?.as_str()) {
        Version::parse_tolerant(&version)?;
    }
    let found =
        parts.map(|part| part.map(|part| part.get_each::<MAX_FIELDS>(|i| FIELDS.get(i).map_or("", |(way, _)| way[1]))));
    Ok(Text::object(|out| {
        for (i, (way, field)) in FIELDS.iter().enumerate() {
            let part = PARTS.iter().position(|part| *part == way[0]).and_then(|part| found[part]);
            write_field(field, part.and_then(|part| part[i]), out);
        }
    }))
}

/// Returns the fields of a property value, in the order of [`FIELDS`].
pub(crate) fn fields(metadata: Raw<'_>) -> [Option<Raw<'_>>; MAX_FIELDS] {
    metadata.get_each(|i| FIELDS.get(i).map_or("", |(_, field)| field.name))
}

/// Adds a field to an object.
pub(crate) fn write_field(field: &MetadataField, value: Option<Raw<'_>>, out: &mut MemberWriter<'_>) {
    let value = value.filter(|value| value.kind() != JsonKind::Null);
    let empty = match (&field.form, value) {
        (_, None) => true,
        (MetadataForm::Str, Some(value)) => value.text() == "\"\"",
        (MetadataForm::Bool, Some(value)) => value.text() == "false",
        (MetadataForm::Number, Some(value)) => value.text() == "0",
        (MetadataForm::Strings | MetadataForm::List(_), Some(value)) => {
            value.kind() != JsonKind::Array || value.is_empty_collection()
        }
        (MetadataForm::StringMap, Some(value)) => value.kind() != JsonKind::Object || value.is_empty_collection(),
        (MetadataForm::Any | MetadataForm::Object(_), Some(_)) => false,
    };
    if empty && !field.always {
        return;
    }
    let name = field.name;
    match (&field.form, value) {
        (MetadataForm::Str, None) => out.string(name, ""),
        (MetadataForm::Bool, None) => out.bool(name, false),
        (MetadataForm::Object(fields), value) => out.object(name, |out| write_fields(fields, value, out)),
        (MetadataForm::List(fields), Some(value)) => {
            out.objects(name, value.items(), |item, out| write_fields(fields, Some(item), out))
        }
        (MetadataForm::Strings, Some(value)) => {
            out.strings(name, value.items().map(|item| item.as_str().unwrap_or_default()))
        }
        (MetadataForm::StringMap, Some(value)) => out.object(name, |out| string_map(value, out)),
        (MetadataForm::Any, value) => out.compact(name, value),
        (
            MetadataForm::Str
            | MetadataForm::Bool
            | MetadataForm::Number
            | MetadataForm::List(_)
            | MetadataForm::Strings
            | MetadataForm::StringMap,
            value,
        ) => out.canonical(name, value),
    };
}

fn write_fields(fields: &[MetadataField], value: Option<Raw<'_>>, out: &mut MemberWriter<'_>) {
    let name = |i: usize| fields.get(i).map_or("", |field| field.name);
    let found = value.map_or([None; MAX_FIELDS], |value| value.get_each(name));
    for (field, value) in fields.iter().zip(found) {
        write_field(field, value, out);
    }
}

/// Writes strings sorted by key.
fn string_map(value: Raw<'_>, out: &mut MemberWriter<'_>) {
    let mut members: Vec<_> = value.members().collect();
    members.sort_by(|a, b| a.0.cmp(&b.0));
    for (i, (key, value)) in members.iter().enumerate() {
        // The last of several equal keys counts.
        if members.get(i + 1).is_none_or(|next| next.0 != *key) {
            out.string(key, &value.as_str().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(csv: &str) -> String {
        from_csv(Raw::parse(csv, 50).unwrap()).map_or_else(|error| error.to_string(), Text::into_string)
    }

    #[test]
    fn empty_fields_are_omitted_except_three() {
        assert_eq!(converted(r#"{"spec":{}}"#), r#"{"apiServiceDefinitions":{},"crdDescriptions":{},"provider":{}}"#);
    }

    #[test]
    fn fields_have_a_fixed_order_and_unknown_ones_are_dropped() {
        insta::assert_snapshot!(converted(r#"{"spec":{"provider":{"url":"u","x":1},"description":"<d>","keywords":[],
            "customresourcedefinitions":{"owned":[{"kind":"K","name":"n","specDescriptors":[{"value":{"z":1,"a":2}}]}]}},
            "metadata":{"annotations":{"b":"2","a":"1"},"labels":{}}}"#),
            @r#"{"annotations":{"a":"1","b":"2"},"apiServiceDefinitions":{},"crdDescriptions":{"owned":[{"name":"n","version":"","kind":"K","specDescriptors":[{"path":"","value":{"z":1,"a":2}}]}]},"description":"<d>","provider":{"url":"u"}}"#);
    }

    #[test]
    fn a_csv_with_wrong_types_is_rejected() {
        insta::assert_snapshot!(converted(r#"{"spec":{"displayName":["x"]}}"#), @r#"json: cannot unmarshal array into field "spec.displayName" of type string"#);
        assert!(converted(r#"{"spec":{"version":"not-a-version"}}"#).starts_with("Short version cannot contain"));
    }
}
