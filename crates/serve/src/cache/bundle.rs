//! Encodes blobs as replies of the registry API.

use std::borrow::Cow;
use std::io;

use catalog::query::message;
use fbc::json::{JsonKind, JsonLayout, LongValue, Raw, Text, write_canonical};
use fbc::{Blob, BlobContent, Fbc, Limits, property};

/// The parts of a `Bundle` reply.
#[derive(Default)]
pub(super) struct Parts {
    /// Fields that do not depend on a channel.
    pub(super) slim: Vec<u8>,
    pub(super) before_skip_range: usize,
    pub(super) before_replaces: usize,
    /// The `object` field, followed by the CSV if it is not one of the objects.
    pub(super) body: Vec<u8>,
    pub(super) objects_length: usize,
    pub(super) csv_start: usize,
    pub(super) csv_length: usize,
}

/// Why a bundle cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum BundleFault {
    /// Its text cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its fields are unknown.
    #[error("bundle could not be decoded")]
    NotDecoded,
    /// It has CSV metadata this many times, which a reply cannot represent.
    #[error("expected at most 1 property of type \"{metadata}\", found {0}", metadata = property::CSV_METADATA)]
    CsvMetadata(u32),
    /// It cannot be compressed; the name of the error.
    #[error("{0}")]
    Compression(&'static str),
}

/// Encodes a bundle, and passes its CSV, or the CSV metadata in the catalog, to `seen`.
///
/// # Errors
/// Fails when the bundle has CSV metadata more than once, which a reply cannot represent.
pub(super) fn encode(
    fbc: &Fbc,
    limits: &Limits,
    blob: &Blob,
    bundle: &catalog::Bundle,
    text: Raw<'_>,
    package: Option<Raw<'_>>,
    seen: impl FnOnce(Option<Raw<'_>>),
) -> Result<Parts, BundleFault> {
    let BlobContent::Bundle(known) = &blob.content else { return Err(BundleFault::NotDecoded) };
    if known.csv_metadata > 1 {
        return Err(BundleFault::CsvMetadata(known.csv_metadata));
    }
    let mut parts = Parts::default();
    let version = known.package_properties.first().map_or("", |property| &property.version);
    let properties: Properties<'_> = property::of(text).collect();
    slim(&properties, &known.image, version, bundle.deprecation.as_deref(), &mut parts);
    body(fbc, limits, blob, known, bundle, text, package, &mut parts, seen);
    Ok(parts)
}

/// Property types and values.
type Properties<'a> = Vec<(Cow<'a, str>, Option<Raw<'a>>)>;

fn slim(properties: &Properties<'_>, image: &str, version: &str, deprecation: Option<&str>, parts: &mut Parts) {
    let out = &mut parts.slim;
    message::string(out, 6, image);
    for (field, wanted) in [(7, property::GVK), (8, property::GVK_REQUIRED)] {
        for (_, value) in properties.iter().filter(|(kind, _)| kind == wanted) {
            let part = |name| value.and_then(|value| value.get(name)?.as_str()).unwrap_or_default();
            message::api(out, field, &part("group"), &part("version"), &part("kind"));
        }
    }
    message::string(out, 9, version);
    parts.before_skip_range = out.len();
    let mut json = Vec::new();
    for (kind, value) in properties {
        json.clear();
        match &**kind {
            property::GVK_REQUIRED => {
                canonical(*value, &mut json);
                message::typed_value(out, 11, property::GVK, &json);
            }
            property::PACKAGE_REQUIRED => {
                let part = |name| value.and_then(|value| value.get(name)?.as_str()).unwrap_or_default();
                let package = Text::object(|package| {
                    package.string("packageName", &part("packageName")).string("version", &part("versionRange"));
                });
                message::typed_value(out, 11, property::PACKAGE, package.as_bytes());
            }
            _ => {}
        }
    }
    for (kind, value) in properties {
        if kind != property::BUNDLE_OBJECT && kind != property::CSV_METADATA {
            json.clear();
            canonical(*value, &mut json);
            message::typed_value(out, 12, kind, &json);
        }
    }
    parts.before_replaces = out.len();
    message::deprecation(out, 15, deprecation);
}

fn canonical(value: Option<Raw<'_>>, out: &mut Vec<u8>) {
    match value {
        Some(value) => write_canonical(value, JsonLayout::Compact, out),
        None => out.extend_from_slice(b"null"),
    }
}

#[expect(clippy::too_many_arguments, reason = "together they describe one bundle")]
fn body(
    fbc: &Fbc,
    limits: &Limits,
    blob: &Blob,
    known: &fbc::blob::Bundle,
    bundle: &catalog::Bundle,
    text: Raw<'_>,
    package: Option<Raw<'_>>,
    parts: &mut Parts,
    seen: impl FnOnce(Option<Raw<'_>>),
) {
    let objects = if known.objects > 0 { fbc.objects(blob, text, limits) } else { Vec::new() };
    let (mut csv, mut spans, mut seen) = (None, Vec::new(), Some(seen));
    for object in &objects {
        message::item(&mut parts.body, 5, object.as_bytes());
        if csv.is_none()
            && let Some(found) = as_csv(object, limits, &mut spans)
        {
            csv = Some((parts.body.len() - object.len(), object.len()));
            seen.take().into_iter().for_each(|seen| seen(Some(found)));
        }
    }
    if let Some(seen) = seen {
        seen(property::of(text).find_map(|(kind, value)| value.filter(|_| kind == property::CSV_METADATA)));
    }
    parts.objects_length = parts.body.len();
    if csv.is_none() && known.csv_metadata == 1 {
        let facts = fbc::csv::rebuilt::CsvInputs { name: &blob.name, version: &bundle.version, bundle: text, package };
        let made = fbc::csv::rebuilt::from_metadata(&facts);
        if objects.is_empty() {
            message::item(&mut parts.body, 5, made.as_bytes());
            parts.objects_length = parts.body.len();
        } else {
            parts.body.extend_from_slice(made.as_bytes());
        }
        csv = Some((parts.body.len() - made.len(), made.len()));
    }
    (parts.csv_start, parts.csv_length) = csv.unwrap_or_default();
}

/// Returns the object if it is a CSV.
fn as_csv<'a>(object: &'a str, limits: &Limits, spans: &'a mut Vec<LongValue>) -> Option<Raw<'a>> {
    spans.clear();
    let value = Raw::parse_indexed(object, 0, limits.depth, spans).ok()?;
    if value.text().len() < object.trim_ascii().len() {
        return None;
    }
    value.get("kind")?.as_str().is_some_and(|kind| kind == fbc::csv::KIND).then_some(value)
}

/// Decodes the provided APIs from the slim part of a bundle: group, version, kind.
pub(super) fn provided_apis(slim: &[u8]) -> Vec<[String; 3]> {
    let mut apis = Vec::new();
    for (field, value) in Fields(slim) {
        if field == 7 {
            let mut api: [String; 3] = Default::default();
            for (part, text) in Fields(value) {
                if let Some(place) = (part as usize).checked_sub(1).and_then(|i| api.get_mut(i)) {
                    *place = String::from_utf8_lossy(text).into_owned();
                }
            }
            apis.push(api);
        }
    }
    apis
}

/// Iterates over the fields of an encoded message of strings and messages; stops at anything else.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let length = usize::try_from(self.varint()?).ok()?;
        let value = self.0.get(..length)?;
        self.0 = &self.0[length..];
        Some((tag >> 3, value))
    }
}

impl Fields<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

/// Encodes a blob as a `google.protobuf.Struct`.
pub(super) fn encode_struct(text: Raw<'_>) -> Vec<u8> {
    // The canonical form contains each key once.
    let json = Text::canonical(text, JsonLayout::Compact);
    let mut out = Vec::with_capacity(json.len());
    fields(json.raw(), &mut out);
    out
}

fn fields(object: Raw<'_>, out: &mut Vec<u8>) {
    for (key, member) in object.members() {
        let mut entry = Vec::with_capacity(member.text().len() + key.len() + 16);
        message::string(&mut entry, 1, &key);
        let mut encoded = Vec::with_capacity(member.text().len() + 8);
        value(member, &mut encoded);
        message::item(&mut entry, 2, &encoded);
        message::item(out, 1, &entry);
    }
}

fn value(json: Raw<'_>, out: &mut Vec<u8>) {
    match json.kind() {
        JsonKind::Null => out.extend_from_slice(&[1 << 3, 0]),
        JsonKind::Number => {
            out.push(2 << 3 | 1);
            out.extend_from_slice(&json.text().parse::<f64>().unwrap_or_default().to_le_bytes());
        }
        JsonKind::String => message::item(out, 3, json.as_str().unwrap_or_default().as_bytes()),
        JsonKind::Bool => out.extend_from_slice(&[4 << 3, u8::from(json.as_bool() == Some(true))]),
        JsonKind::Object => {
            let mut inner = Vec::with_capacity(json.text().len());
            fields(json, &mut inner);
            message::item(out, 5, &inner);
        }
        JsonKind::Array => {
            let mut inner = Vec::with_capacity(json.text().len());
            for item in json.items() {
                let mut encoded = Vec::new();
                value(item, &mut encoded);
                message::item(&mut inner, 1, &encoded);
            }
            message::item(out, 6, &inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_can_contain_every_kind_of_value() {
        let text = r#"{"b":[true,null,"x"],"a":{"n":1.5},"e":"","l":[]}"#;
        let bytes = encode_struct(Raw::parse(text, 9).unwrap());
        let decoded: prost_types::Struct = prost::Message::decode(bytes.as_slice()).unwrap();
        assert_eq!(decoded.fields.len(), 4);
        insta::assert_snapshot!(format!("{:?}", decoded.fields["b"]), @"Value { kind: Some(ListValue(ListValue { values: [Value { kind: Some(BoolValue(true)) }, Value { kind: Some(NullValue(NullValue)) }, Value { kind: Some(StringValue(\"x\")) }] })) }");
        insta::assert_snapshot!(format!("{:?}", decoded.fields["a"]), @"Value { kind: Some(StructValue(Struct { fields: {\"n\": Value { kind: Some(NumberValue(1.5)) }} })) }");
    }

    #[test]
    fn provided_apis_are_read_back_and_invalid_bytes_give_none() {
        let mut slim = Vec::new();
        message::string(&mut slim, 6, "image");
        message::api(&mut slim, 7, "", "v1", "Pod");
        assert_eq!(provided_apis(&slim), [[String::new(), "v1".into(), "Pod".into()]]);
        assert!(provided_apis(&[0xff; 40]).is_empty());
    }
}
