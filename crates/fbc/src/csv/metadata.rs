//! The `olm.csv.metadata` property: metadata for consoles, extracted from a CSV.

use crate::json::{Fields, Kind, Path, Raw, Text};
use crate::property;
use crate::shape::{Mismatch, Shape};
use crate::version::{Version, VersionError};

/// A field of the property's value.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    /// Whether the field is written even if it is empty.
    pub(crate) always: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Form {
    Str,
    Bool,
    Number,
    Strings,
    StringMap,
    /// Any value, as written.
    Any,
    Object(&'static [Field]),
    List(&'static [Field]),
}

const fn some(name: &'static str, form: Form) -> Field {
    Field { name, form, always: false }
}

const fn always(name: &'static str, form: Form) -> Field {
    Field { name, form, always: true }
}

/// The maximum number of fields in an object of the property, so that one pass finds all of them.
pub(crate) const MAX_FIELDS: usize = 16;
/// The parts of a CSV that the fields come from.
const PARTS: [&str; 2] = ["metadata", "spec"];
const SPEC: usize = 1;

const NAMED: &[Field] = &[always("name", Form::Str), always("kind", Form::Str), always("version", Form::Str)];
const DESCRIPTOR: &[Field] = &[
    always("path", Form::Str),
    some("displayName", Form::Str),
    some("description", Form::Str),
    some("x-descriptors", Form::Strings),
    some("value", Form::Any),
];
const CRD: &[Field] = &[
    always("name", Form::Str),
    always("version", Form::Str),
    always("kind", Form::Str),
    some("displayName", Form::Str),
    some("description", Form::Str),
    some("resources", Form::List(NAMED)),
    some("statusDescriptors", Form::List(DESCRIPTOR)),
    some("specDescriptors", Form::List(DESCRIPTOR)),
    some("actionDescriptors", Form::List(DESCRIPTOR)),
];
const API_SERVICE: &[Field] = &[
    always("name", Form::Str),
    always("group", Form::Str),
    always("version", Form::Str),
    always("kind", Form::Str),
    some("deploymentName", Form::Str),
    some("containerPort", Form::Number),
    some("displayName", Form::Str),
    some("description", Form::Str),
    some("resources", Form::List(NAMED)),
    some("statusDescriptors", Form::List(DESCRIPTOR)),
    some("specDescriptors", Form::List(DESCRIPTOR)),
    some("actionDescriptors", Form::List(DESCRIPTOR)),
];
const LINK: &[Field] = &[some("name", Form::Str), some("url", Form::Str)];

/// The fields of the value, with their paths in the CSV.
pub(crate) const FIELDS: &[([&str; 2], Field)] = &[
    (["metadata", "annotations"], some("annotations", Form::StringMap)),
    (
        ["spec", "apiservicedefinitions"],
        always(
            "apiServiceDefinitions",
            Form::Object(&[some("owned", Form::List(API_SERVICE)), some("required", Form::List(API_SERVICE))]),
        ),
    ),
    (
        ["spec", "customresourcedefinitions"],
        always("crdDescriptions", Form::Object(&[some("owned", Form::List(CRD)), some("required", Form::List(CRD))])),
    ),
    (["spec", "description"], some("description", Form::Str)),
    (["spec", "displayName"], some("displayName", Form::Str)),
    (
        ["spec", "installModes"],
        some("installModes", Form::List(&[always("type", Form::Str), always("supported", Form::Bool)])),
    ),
    (["spec", "keywords"], some("keywords", Form::Strings)),
    (["metadata", "labels"], some("labels", Form::StringMap)),
    (["spec", "links"], some("links", Form::List(LINK))),
    (["spec", "maintainers"], some("maintainers", Form::List(&[some("name", Form::Str), some("email", Form::Str)]))),
    (["spec", "maturity"], some("maturity", Form::Str)),
    (["spec", "minKubeVersion"], some("minKubeVersion", Form::Str)),
    (
        ["spec", "nativeAPIs"],
        some(
            "nativeAPIs",
            Form::List(&[always("group", Form::Str), always("version", Form::Str), always("kind", Form::Str)]),
        ),
    ),
    (["spec", "provider"], always("provider", Form::Object(LINK))),
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
    CSV.check(csv, &Path::default())?;
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
pub(crate) fn write_field(field: &Field, value: Option<Raw<'_>>, out: &mut Fields<'_>) {
    let value = value.filter(|value| value.kind() != Kind::Null);
    let empty = match (&field.form, value) {
        (_, None) => true,
        (Form::Str, Some(value)) => value.text() == "\"\"",
        (Form::Bool, Some(value)) => value.text() == "false",
        (Form::Number, Some(value)) => value.text() == "0",
        (Form::Strings | Form::List(_), Some(value)) => value.kind() != Kind::Array || value.is_empty_collection(),
        (Form::StringMap, Some(value)) => value.kind() != Kind::Object || value.is_empty_collection(),
        (Form::Any | Form::Object(_), Some(_)) => false,
    };
    if empty && !field.always {
        return;
    }
    let name = field.name;
    match (&field.form, value) {
        (Form::Str, None) => out.string(name, ""),
        (Form::Bool, None) => out.bool(name, false),
        (Form::Object(fields), value) => out.object(name, |out| write_fields(fields, value, out)),
        (Form::List(fields), Some(value)) => {
            out.objects(name, value.items(), |item, out| write_fields(fields, Some(item), out))
        }
        (Form::Strings, Some(value)) => out.strings(name, value.items().map(|item| item.as_str().unwrap_or_default())),
        (Form::StringMap, Some(value)) => out.object(name, |out| string_map(value, out)),
        (Form::Any, value) => out.compact(name, value),
        (Form::Str | Form::Bool | Form::Number | Form::List(_) | Form::Strings | Form::StringMap, value) => {
            out.canonical(name, value)
        }
    };
}

fn write_fields(fields: &[Field], value: Option<Raw<'_>>, out: &mut Fields<'_>) {
    let name = |i: usize| fields.get(i).map_or("", |field| field.name);
    let found = value.map_or([None; MAX_FIELDS], |value| value.get_each(name));
    for (field, value) in fields.iter().zip(found) {
        write_field(field, value, out);
    }
}

/// Writes strings sorted by key.
fn string_map(value: Raw<'_>, out: &mut Fields<'_>) {
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
