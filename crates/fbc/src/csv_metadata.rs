//! The `olm.csv.metadata` property: what consoles show of a bundle, taken from its CSV.

use crate::json::{Kind, Layout, Path, Raw, write_as_written, write_canonical, write_str};
use crate::property;
use crate::shape::Shape;
use crate::version::Version;

/// A field of the property's value, and where a CSV has it.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    /// Whether the field is written although it is empty.
    pub(crate) always: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Form {
    Str,
    Bool,
    Number,
    Strings,
    StringMap,
    /// Any value, as it is written.
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

/// Fields of the value: name there, where in the CSV, form.
pub(crate) const FIELDS: &[(&[&str], Field)] = &[
    (&["metadata", "annotations"], some("annotations", Form::StringMap)),
    (
        &["spec", "apiservicedefinitions"],
        always(
            "apiServiceDefinitions",
            Form::Object(&[some("owned", Form::List(API_SERVICE)), some("required", Form::List(API_SERVICE))]),
        ),
    ),
    (
        &["spec", "customresourcedefinitions"],
        always("crdDescriptions", Form::Object(&[some("owned", Form::List(CRD)), some("required", Form::List(CRD))])),
    ),
    (&["spec", "description"], some("description", Form::Str)),
    (&["spec", "displayName"], some("displayName", Form::Str)),
    (
        &["spec", "installModes"],
        some("installModes", Form::List(&[always("type", Form::Str), always("supported", Form::Bool)])),
    ),
    (&["spec", "keywords"], some("keywords", Form::Strings)),
    (&["metadata", "labels"], some("labels", Form::StringMap)),
    (&["spec", "links"], some("links", Form::List(LINK))),
    (&["spec", "maintainers"], some("maintainers", Form::List(&[some("name", Form::Str), some("email", Form::Str)]))),
    (&["spec", "maturity"], some("maturity", Form::Str)),
    (&["spec", "minKubeVersion"], some("minKubeVersion", Form::Str)),
    (
        &["spec", "nativeAPIs"],
        some(
            "nativeAPIs",
            Form::List(&[always("group", Form::Str), always("version", Form::Str), always("kind", Form::Str)]),
        ),
    ),
    (&["spec", "provider"], always("provider", Form::Object(LINK))),
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

/// Appends the value of the `olm.csv.metadata` property that stands for `csv`.
///
/// # Errors
/// Fails when fields of the CSV have other types than they must, or its version is none.
pub fn from_csv(csv: Raw<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    CSV.check(csv, &Path::default()).map_err(|mismatch| mismatch.to_string())?;
    let spec = csv.get("spec");
    if let Some(version) = spec.and_then(|spec| spec.get("version")?.as_str()) {
        Version::parse_tolerant(&version).map_err(|error| error.to_string())?;
    }
    out.push(b'{');
    let mut first = true;
    for (way, field) in FIELDS {
        let value = way.iter().try_fold(csv, |value, name| value.get(name));
        write_field(field, value, &mut first, out);
    }
    out.push(b'}');
    Ok(())
}

pub(crate) fn write_field(field: &Field, value: Option<Raw<'_>>, first: &mut bool, out: &mut Vec<u8>) {
    let value = value.filter(|value| value.kind() != Kind::Null);
    let empty = match (&field.form, value) {
        (_, None) => true,
        (Form::Str, Some(value)) => value.text() == "\"\"",
        (Form::Bool, Some(value)) => value.text() == "false",
        (Form::Number, Some(value)) => value.text() == "0",
        (Form::Strings | Form::List(_), Some(value)) => value.items().next().is_none(),
        (Form::StringMap, Some(value)) => value.members().next().is_none(),
        (Form::Any | Form::Object(_), Some(_)) => false,
    };
    if empty && !field.always {
        return;
    }
    if !std::mem::take(first) {
        out.push(b',');
    }
    write_str(out, field.name);
    out.push(b':');
    match (&field.form, value) {
        (Form::Str, None) => out.extend_from_slice(b"\"\""),
        (Form::Bool, None) => out.extend_from_slice(b"false"),
        (Form::Object(fields), value) => write_object(fields, value, out),
        (_, None) => out.extend_from_slice(b"null"),
        (Form::List(fields), Some(value)) => {
            out.push(b'[');
            for (i, item) in value.items().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_object(fields, Some(item), out);
            }
            out.push(b']');
        }
        (Form::Strings, Some(value)) => {
            out.push(b'[');
            for (i, item) in value.items().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_str(out, &item.as_str().unwrap_or_default());
            }
            out.push(b']');
        }
        (Form::Any, Some(value)) => write_as_written(value, Layout::Compact, 0, out),
        (Form::StringMap, Some(value)) => {
            let mut members: Vec<_> = value.members().collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            out.push(b'{');
            for (i, (key, value)) in members.iter().enumerate() {
                if members.get(i + 1).is_some_and(|next| next.0 == *key) {
                    continue; // the last of equal keys counts
                }
                if out.last() != Some(&b'{') {
                    out.push(b',');
                }
                write_str(out, key);
                out.push(b':');
                write_str(out, &value.as_str().unwrap_or_default());
            }
            out.push(b'}');
        }
        (Form::Str | Form::Bool | Form::Number, Some(value)) => write_canonical(value, Layout::Compact, out),
    }
}

fn write_object(fields: &[Field], value: Option<Raw<'_>>, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut first = true;
    for field in fields {
        write_field(field, value.and_then(|value| value.get(field.name)), &mut first, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(csv: &str) -> String {
        let mut out = Vec::new();
        match from_csv(Raw::parse(csv, 50).unwrap(), &mut out) {
            Ok(()) => String::from_utf8(out).unwrap(),
            Err(message) => message,
        }
    }

    #[test]
    fn empty_fields_are_left_out_but_for_three() {
        assert_eq!(made(r#"{"spec":{}}"#), r#"{"apiServiceDefinitions":{},"crdDescriptions":{},"provider":{}}"#);
    }

    #[test]
    fn fields_come_in_their_order_and_unknown_ones_are_dropped() {
        insta::assert_snapshot!(made(r#"{"spec":{"provider":{"url":"u","x":1},"description":"<d>","keywords":[],
            "customresourcedefinitions":{"owned":[{"kind":"K","name":"n","specDescriptors":[{"value":{"z":1,"a":2}}]}]}},
            "metadata":{"annotations":{"b":"2","a":"1"},"labels":{}}}"#),
            @r#"{"annotations":{"a":"1","b":"2"},"apiServiceDefinitions":{},"crdDescriptions":{"owned":[{"name":"n","version":"","kind":"K","specDescriptors":[{"path":"","value":{"z":1,"a":2}}]}]},"description":"<d>","provider":{"url":"u"}}"#);
    }

    #[test]
    fn a_csv_of_the_wrong_types_is_refused() {
        insta::assert_snapshot!(made(r#"{"spec":{"displayName":["x"]}}"#), @r#"json: cannot unmarshal array into field "spec.displayName" of type string"#);
        assert!(made(r#"{"spec":{"version":"not-a-version"}}"#).starts_with("Short version cannot contain"));
    }
}
