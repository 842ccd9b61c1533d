//! Decodes documents to blobs: the envelope, and the fields of known schemas.

use std::borrow::Cow;

use crate::blob::{
    BUNDLE, BlobContent, Bundle, CHANNEL, ChannelEntry, DEPRECATIONS, Deprecation, PACKAGE, PackageProperty,
};
use crate::json::{JsonKind, JsonPath, Raw};
use crate::legacy::LegacyProperties;
use crate::object::{self, RefBase};
use crate::path;
use crate::property;
use crate::schema::{BUNDLE_SHAPE, CHANNEL_SHAPE, DEPRECATIONS_SHAPE, PACKAGE_SHAPE};
use crate::shape::{Mismatch, Shape};
use crate::similar;
use crate::unknown_fields;

/// The envelope fields that every blob has.
#[derive(Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) schema: Cow<'a, str>,
    pub(crate) package: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
}

/// The reason why a document is not a blob.
pub(crate) struct DecodeFault {
    pub(crate) rule: &'static str,
    pub(crate) message: String,
    pub(crate) path: JsonPath,
    pub(crate) help: Option<String>,
}

/// Objects with more top-level keys than this are checked for clashes with a sorted list.
const FEW_KEYS: usize = 16;

/// The start of a file that Git LFS has not fetched.
const LFS_POINTER: &str = "version https://git-lfs.github.com/";

/// Reads the envelope of a document.
pub(crate) fn envelope(document: Raw<'_>) -> Result<Envelope<'_>, DecodeFault> {
    if document.kind() == JsonKind::Null {
        return Err(DecodeFault {
            rule: "schema-required",
            message: "object '{}' is missing root schema field".into(),
            path: JsonPath::default(),
            help: Some(
                "two separators with only blank lines or comments between them form an empty document; remove one"
                    .into(),
            ),
        });
    }
    if document.kind() != JsonKind::Object {
        let is_pointer = document.as_str().is_some_and(|text| text.starts_with(LFS_POINTER));
        let help = match is_pointer {
            true => "the file is a pointer of Git LFS: 'git lfs pull' fetches its content",
            false => "list files that are not catalog content in a .indexignore file",
        };
        return Err(DecodeFault {
            rule: "document-is-object",
            message: format!("a catalog document must be an object, found {}", document.kind()),
            path: JsonPath::default(),
            help: Some(help.into()),
        });
    }
    let mut fields = [const { Cow::Borrowed("") }; 3];
    let mut keys: Vec<Cow<'_, str>> = Vec::with_capacity(8);
    for (key, value) in document.members() {
        if let Some(at) = ["schema", "package", "name"].iter().position(|name| key.eq_ignore_ascii_case(name)) {
            fields[at] = value.as_str().ok_or_else(|| DecodeFault {
                rule: "envelope-types",
                message: format!(
                    "expected value for key \"{key}\" to be a string, got {} ({})",
                    value.kind(),
                    excerpt(value.text(), 40)
                ),
                path: path![key.to_string()],
                help: (value.kind() != JsonKind::Null).then(|| format!("quote the value of \"{key}\"")),
            })?;
        }
        keys.push(key);
    }
    if let Some(clash) = clashing_keys(&mut keys) {
        return Err(DecodeFault {
            rule: "keys-differ-by-more-than-case",
            message: format!("duplicate keys for key \"{}\": [{}]", clash[0].to_lowercase(), clash.join(" ")),
            path: path![clash[0].clone()],
            help: Some("keep one of them".into()),
        });
    }
    let [schema, package, name] = fields;
    if schema.is_empty() {
        return Err(DecodeFault {
            rule: "schema-required",
            message: format!("object '{}' is missing root schema field", excerpt(&compact(document), 120)),
            path: JsonPath::default(),
            help: Some(match keys.iter().find(|key| similar::nearest(key, std::iter::once("schema")).is_some()) {
                Some(key) => format!("did you mean \"schema\" instead of \"{key}\"?"),
                None => {
                    "every document needs a \"schema\"; list files that are not catalog content in .indexignore".into()
                }
            }),
        });
    }
    Ok(Envelope { schema, package, name })
}

/// Finds keys that differ only in case; identical keys count as one.
fn clashing_keys(keys: &mut Vec<Cow<'_, str>>) -> Option<Vec<String>> {
    let same = |a: &str, b: &str| {
        if a.is_ascii() && b.is_ascii() { a.eq_ignore_ascii_case(b) } else { a.to_lowercase() == b.to_lowercase() }
    };
    if keys.len() <= FEW_KEYS {
        let clash =
            (1..keys.len()).any(|i| keys[..i].iter().any(|earlier| *earlier != keys[i] && same(earlier, &keys[i])));
        if !clash {
            return None;
        }
    }
    keys.sort();
    keys.dedup();
    let mut folded: Vec<(String, &str)> = keys.iter().map(|key| (key.to_lowercase(), &**key)).collect();
    folded.sort();
    folded
        .chunk_by(|a, b| a.0 == b.0)
        .find(|group| group.len() > 1)
        .map(|group| group.iter().map(|(_, key)| (*key).to_owned()).collect())
}

/// The decoded part of a blob.
pub(crate) struct Decoded {
    pub(crate) content: BlobContent,
    /// Whether it may have fields that its schema does not know.
    pub(crate) may_have_unknown_fields: bool,
}

/// Decodes the required part of a blob with a known schema.
pub(crate) fn content(document: Raw<'_>, envelope: &Envelope<'_>, refs: &RefBase<'_>) -> Result<Decoded, DecodeFault> {
    let mut may_have_unknown_fields = false;
    let mut shaped = |kind: &str, shape: Shape| {
        let known = unknown_fields::printed(&envelope.schema);
        let checked = shape.check_noting(document, known).map_err(|mismatch| parse_fault(kind, mismatch));
        checked.map(|found| may_have_unknown_fields = found)
    };
    let content = match &*envelope.schema {
        PACKAGE => {
            shaped("package", PACKAGE_SHAPE)?;
            BlobContent::Package { default_channel: document.get_str("defaultChannel").into() }
        }
        CHANNEL => {
            shaped("channel", CHANNEL_SHAPE)?;
            BlobContent::Channel { entries: document.get_items("entries").map(entry).collect() }
        }
        BUNDLE => {
            shaped("bundle", BUNDLE_SHAPE)?;
            BlobContent::Bundle(Box::new(bundle(document, envelope, refs)?))
        }
        DEPRECATIONS => {
            shaped("deprecation", DEPRECATIONS_SHAPE)?;
            BlobContent::Deprecations { entries: document.get_items("entries").map(deprecation).collect() }
        }
        _ => BlobContent::Other,
    };
    Ok(Decoded { content, may_have_unknown_fields })
}

fn parse_fault(kind: &str, mismatch: Mismatch) -> DecodeFault {
    DecodeFault { rule: "field-types", message: format!("parse {kind}: {mismatch}"), path: mismatch.path, help: None }
}

fn entry(value: Raw<'_>) -> ChannelEntry {
    ChannelEntry {
        name: value.get_str("name").into(),
        replaces: value.get_str("replaces").into(),
        skips: value.get_items("skips").map(|skip| skip.as_str().unwrap_or_default().into()).collect(),
        skip_range: value.get_str("skipRange").into(),
    }
}

fn deprecation(value: Raw<'_>) -> Deprecation {
    let reference = value.get("reference");
    let field = |name| reference.map(|reference| reference.get_str(name).into()).unwrap_or_default();
    Deprecation { schema: field("schema"), name: field("name"), message: value.get_str("message").into() }
}

fn bundle(document: Raw<'_>, envelope: &Envelope<'_>, refs: &RefBase<'_>) -> Result<Bundle, DecodeFault> {
    let mut bundle = Bundle { image: document.get_str("image").into(), ..Bundle::default() };
    let mut old_form = LegacyProperties::default();
    for (index, (kind, value)) in property::of(document).enumerate() {
        match &*kind {
            property::PACKAGE => {
                let fields = value.map(|value| value.get_all(["packageName", "version", "release"]));
                let [package_name, version, release] =
                    fields.unwrap_or_default().map(|field| field.and_then(Raw::as_str).unwrap_or_default().into());
                let index = index as u32;
                bundle.package_properties.push(PackageProperty { index, package_name, version, release });
            }
            property::BUNDLE_OBJECT => {
                object::check(value, refs).map_err(|error| DecodeFault {
                    rule: "bundle-objects",
                    message: format!(
                        "read bundle objects: package \"{}\", bundle \"{}\": {error} (property at index {index})",
                        envelope.package, envelope.name
                    ),
                    path: path!["properties", index, "value"],
                    help: None,
                })?;
                bundle.objects += 1;
                let reference = value.map(|value| value.get_str("ref")).filter(|reference| !reference.is_empty());
                bundle.references.extend(reference.map(Into::into));
            }
            property::CSV_METADATA => bundle.csv_metadata += 1,
            property::CHANNEL | property::SKIPS | property::SKIP_RANGE => old_form.add(index, &kind, value),
            _ => {}
        }
    }
    bundle.old_form = old_form.into_option();
    Ok(bundle)
}

fn compact(value: Raw<'_>) -> String {
    let mut out = Vec::new();
    crate::json::write_canonical(value, crate::json::JsonLayout::Compact, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Truncates text for a message.
pub(crate) fn excerpt(text: &str, length: usize) -> Cow<'_, str> {
    match text.char_indices().nth(length) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}
