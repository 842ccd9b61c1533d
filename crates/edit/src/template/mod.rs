//! Templates: short descriptions that render to catalogs.
//!
//! There are three kinds. `basic` is a catalog that lists its bundles by image; `semver` lists bundles and derives
//! channels and upgrade edges from their versions; `substitutes` is a catalog in which rebuilt bundles substitute for
//! others. [`composite`] combines several templates. Bundles come from images, so the caller supplies them; see
//! [`Bundles`].

mod basic;
pub mod composite;
mod error;
mod file;
#[cfg(test)]
mod sample;
mod semver;
mod substitutes;

pub use error::{SupplyError, TemplateError, line_of};
pub use file::{TemplateFile, TemplateFileError};
pub use semver::SemverError;
pub use substitutes::{SubstitutesError, SubstitutionError};

use std::collections::{HashMap, HashSet};
use std::path::Path as FilePath;

use fbc::blob::BUNDLE;
use fbc::json::{JsonLayout, JsonObject, JsonPath, Raw, Text};
use fbc::shape::Shape;
use fbc::stream::{self, FirstDocument, StreamError};
pub use fbc::template::TemplateKind;
use fbc::{Blob, Fbc, Limits};

/// A parsed but uninterpreted template: the first document of a text.
#[derive(Debug)]
pub struct Template<'a> {
    text: &'a [u8],
    document: Option<FirstDocument<'a>>,
    json: Text,
}

impl<'a> Template<'a> {
    /// Parses a template, in JSON or YAML.
    ///
    /// An empty text is a template without fields. Everything after the first document is ignored.
    ///
    /// # Errors
    /// Fails if the document cannot be parsed.
    pub fn parse(text: &'a [u8], limits: &Limits) -> Result<Template<'a>, StreamError> {
        let (document, json) = match stream::first(text, limits)? {
            Some((first, json)) => (Some(first), json),
            None => (None, JsonObject::new().end()),
        };
        Ok(Template { text, document, json })
    }

    /// Returns the kind of the template, according to its schema.
    ///
    /// # Errors
    /// Fails if there is no schema, or if it is not that of a template.
    pub fn kind(&self) -> Result<TemplateKind, TemplateError> {
        let schema = self.schema()?;
        if schema.is_empty() {
            return Err(TemplateError::MissingSchema);
        }
        TemplateKind::ALL.into_iter().find(|kind| kind.schema() == schema).ok_or(TemplateError::UnknownSchema(schema))
    }

    /// Returns the schema of the template, possibly empty.
    ///
    /// # Errors
    /// Fails if it is not a string.
    pub fn schema(&self) -> Result<String, TemplateError> {
        check(Shape::Object(&[("schema", Shape::Str)]), self.raw())?;
        Ok(self.raw().get_str("schema").into_owned())
    }

    fn raw(&self) -> Raw<'_> {
        self.json.raw()
    }

    /// Finds a duplicate key in an object of the template, with its line.
    fn repeated_key(&self) -> Option<(String, usize)> {
        let repeated = self.document?.repeated_key()?;
        Some((repeated.key, line_of(self.text, repeated.offset)))
    }
}

/// A bundle rendered for a template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RenderedBundle {
    /// The `olm.bundle` blob.
    pub json: String,
    /// The JSON of its CSV, if the blob does not contain it.
    pub csv: Option<String>,
}

/// Supplies the bundles for references in a template, with a result per reference.
///
/// References are passed together and without duplicates, so that the caller can fetch them concurrently.
pub type Bundles<'a> = dyn FnMut(&[&str]) -> Vec<Result<Vec<RenderedBundle>, SupplyError>> + 'a;

/// Renders a template of a kind to a catalog.
///
/// Only the substitutes template guarantees a valid catalog.
///
/// # Errors
/// Fails if the template is not of that kind or is invalid, or if `bundles` fails.
pub fn render(
    template: &Template<'_>,
    kind: TemplateKind,
    limits: &Limits,
    bundles: &mut Bundles<'_>,
) -> Result<Fbc, TemplateError> {
    let found = template.schema()?;
    if found != kind.schema() {
        return Err(TemplateError::WrongSchema { found, expected: kind.schema() });
    }
    match kind {
        TemplateKind::Basic => basic::render(template.raw(), limits, bundles),
        TemplateKind::Semver => Ok(semver::render(template, limits, bundles)?),
        TemplateKind::Substitutes => Ok(substitutes::render(template.raw(), limits, bundles)?),
    }
}

/// Returns whether a template has the legacy basic form: a plain catalog, whose blobs have schemas.
pub fn is_plain(template: &Template<'_>) -> bool {
    let schema = template.schema().unwrap_or_default();
    !schema.is_empty() && TemplateKind::ALL.into_iter().all(|kind| kind.schema() != schema)
}

/// Renders a basic template, also in the legacy form: a catalog that lists its bundles by image.
///
/// # Errors
/// Fails as [`render`] does, or if the text cannot be parsed.
pub fn render_basic(text: &[u8], limits: &Limits, bundles: &mut Bundles<'_>) -> Result<Fbc, TemplateError> {
    let broken = |source: StreamError| TemplateError::Syntax { line: line_of(text, source.offset), source };
    let template = Template::parse(text, limits).map_err(broken)?;
    match is_plain(&template) {
        true => basic::render_plain(&stream::documents(text, limits).map_err(broken)?, limits, bundles),
        false => render(&template, TemplateKind::Basic, limits, bundles),
    }
}

/// Wraps `bundles` for the template in `file`: relative bundle directories start at the template.
pub fn relative_to<'a>(
    file: &'a FilePath,
    bundles: &'a mut Bundles<'_>,
) -> impl FnMut(&[&str]) -> Vec<Result<Vec<RenderedBundle>, SupplyError>> + 'a {
    let base = file.parent().filter(|base| !base.as_os_str().is_empty());
    move |references| {
        let found: Vec<String> = references
            .iter()
            .map(|reference| match base.filter(|_| reference.starts_with("./") || reference.starts_with("../")) {
                // The result must keep a leading "./" or "/", which marks a directory.
                Some(base) if base.is_absolute() => base.join(reference).display().to_string(),
                Some(base) => FilePath::new(".").join(base).join(reference).display().to_string(),
                None => (*reference).to_owned(),
            })
            .collect();
        bundles(&found.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Builds a catalog from a text whose documents are all blobs.
///
/// # Errors
/// Fails if the text cannot be parsed, or if some documents are not blobs, and reports all of them.
pub fn load_text(text: &[u8], limits: &Limits) -> Result<Fbc, TemplateError> {
    let documents = stream::documents(text, limits)
        .map_err(|source| TemplateError::Syntax { line: line_of(text, source.offset), source })?;
    load_blobs(&documents, limits)
}

/// Builds a catalog from documents that are all blobs.
///
/// # Errors
/// Fails if some are not blobs, and reports all of them.
fn load_blobs(documents: &[Text], limits: &Limits) -> Result<Fbc, TemplateError> {
    let mut fbc = Fbc::default();
    let bundle_blob = blobs(documents.iter().map(Text::raw), "documents", &fbc, limits)?;
    bundle_blob.into_iter().for_each(|(_, blob)| fbc.push(blob));
    Ok(fbc)
}

/// Checks the field types of a template.
fn check(shape: Shape, document: Raw<'_>) -> Result<(), TemplateError> {
    shape.check(document, &JsonPath::default()).map_err(|mismatch| TemplateError::Fields(mismatch.to_string()))
}

/// Converts the entries of a template to blobs, and reports all invalid ones.
fn entries<'a>(document: Raw<'a>, fbc: &Fbc, limits: &Limits) -> Result<Vec<(Raw<'a>, Blob)>, TemplateError> {
    blobs(document.get_items("entries"), "entries", fbc, limits)
}

/// Converts the items of a list to blobs, and reports all invalid ones.
fn blobs<'a>(
    items: impl Iterator<Item = Raw<'a>>,
    list: &str,
    fbc: &Fbc,
    limits: &Limits,
) -> Result<Vec<(Raw<'a>, Blob)>, TemplateError> {
    let mut blobs = Vec::new();
    let mut faults = Vec::new();
    for (index, item) in items.enumerate() {
        match fbc.stored_blob(item.text(), limits) {
            Ok(blob) => blobs.push((item, blob)),
            Err(error) => faults.push(format!("{list}[{index}]: {error}")),
        }
    }
    if faults.is_empty() { Ok(blobs) } else { Err(TemplateError::Entries(faults)) }
}

/// Wraps the documents of a catalog in a template. A basic template contains only the image of each bundle; any other
/// template contains all blobs unchanged.
pub fn convert(kind: TemplateKind, documents: &[Text]) -> Text {
    let basic = kind == TemplateKind::Basic;
    let entry = |document: &Text| {
        let field = |name| document.raw().get_str(name);
        match basic && field("schema") == BUNDLE {
            true => JsonObject::new().string("schema", BUNDLE).string("image", &field("image")).end(),
            false => Text::canonical(document.raw(), JsonLayout::Compact),
        }
    };
    let entries: Vec<Text> = documents.iter().map(entry).collect();
    Text::object(|template| {
        template.string("schema", kind.schema());
        match entries.is_empty() {
            true => template.compact("entries", None),
            false => template.values("entries", entries.iter().map(Text::raw)),
        };
        if !basic {
            template.values("substitutions", []);
        }
    })
}

/// Bundles by reference.
type Supply = HashMap<String, Result<Vec<RenderedBundle>, TemplateError>>;

/// Requests the bundles of references.
fn fetch<'r>(bundles: &mut Bundles<'_>, references: impl IntoIterator<Item = &'r str>) -> Supply {
    let mut seen = HashSet::new();
    let references: Vec<&str> = references.into_iter().filter(|reference| seen.insert(*reference)).collect();
    if references.is_empty() {
        return Supply::new();
    }
    let mut answers = bundles(&references).into_iter();
    let supply = references.into_iter().map(|reference| {
        let answer = answers.next().unwrap_or_else(|| Err(SupplyError::missing()));
        let failed =
            |error: SupplyError| TemplateError::Bundle { reference: reference.to_owned(), message: error.to_string() };
        (reference.to_owned(), answer.map_err(failed))
    });
    supply.collect()
}

/// Requests the bundles of references, all of which must exist, and reports all that are missing.
fn fetch_all<'r>(
    bundles: &mut Bundles<'_>,
    references: impl IntoIterator<Item = &'r str> + Clone,
) -> Result<HashMap<String, Vec<RenderedBundle>>, TemplateError> {
    let mut supply = fetch(bundles, references.clone());
    let mut found = HashMap::new();
    let mut missing = Vec::new();
    for reference in references {
        match supply.remove(reference) {
            Some(Ok(rendered)) => {
                found.insert(reference.to_owned(), rendered);
            }
            Some(Err(error)) => missing.push(error),
            // A repeated reference.
            None => {}
        }
    }
    match missing.len() {
        0 => Ok(found),
        1 => Err(missing.remove(0)),
        _ => Err(TemplateError::Several(missing)),
    }
}

/// Converts a rendered bundle to a blob.
fn bundle_blob(fbc: &Fbc, reference: &str, json: &str, limits: &Limits) -> Result<Blob, TemplateError> {
    fbc.generated_blob(json, limits)
        .map_err(|error| TemplateError::Bundle { reference: reference.to_owned(), message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> String {
        match Template::parse(text.as_bytes(), &Limits::default()).unwrap().kind() {
            Ok(kind) => kind.name().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_schema_determines_the_kind() {
        assert_eq!(kind("schema: olm.template.basic\n"), "basic");
        assert_eq!(kind("# licence\n---\nSchema: olm.semver\n---\nschema: [\n"), "semver");
        assert_eq!(kind(r#"{"schema":"olm.template.substitutes"}"#), "substitutes");
        assert_eq!(kind("schema: olm.template.other\n"), "unknown template schema: olm.template.other");
        for text in ["", "entries: []\n", "schema: ~\n", "schema: ''\n"] {
            assert_eq!(kind(text), "template input missing required 'schema' field");
        }
        assert_eq!(
            kind("schema: 1\n"),
            "unmarshalling template: json: cannot unmarshal number into field \"schema\" of type string"
        );
        assert_eq!(kind("[]"), "unmarshalling template: json: cannot unmarshal array into value of type object");
    }

    #[test]
    fn a_basic_template_keeps_images_and_another_one_whole_blobs() {
        let catalog = [
            r#"{"schema":"olm.package","name":"foo","defaultChannel":""}"#,
            r#"{"schema":"olm.bundle","name":"foo.v1","package":"foo","image":"quay.io/foo:v1"}"#,
        ];
        let documents = catalog.map(|text| Text::parse(text, 100).unwrap());
        let basic = convert(TemplateKind::Basic, &documents).to_string();
        assert!(basic.contains(r#"{"schema":"olm.bundle","image":"quay.io/foo:v1"}"#), "{basic}");
        let substitutes = convert(TemplateKind::Substitutes, &documents).to_string();
        assert!(
            substitutes.contains(r#"{"image":"quay.io/foo:v1","name":"foo.v1","#)
                && substitutes.ends_with(r#""substitutions":[]}"#),
            "{substitutes}"
        );
        assert!(convert(TemplateKind::Basic, &[]).to_string().contains(r#""entries":null"#));
    }

    #[test]
    fn the_requested_kind_must_match_the_schema() {
        let template = Template::parse(b"schema: olm.semver\n", &Limits::default()).unwrap();
        let error = render(&template, TemplateKind::Basic, &Limits::default(), &mut |_| Vec::new()).err().unwrap();
        assert_eq!(error.to_string(), "template has unknown schema (\"olm.semver\"), should be \"olm.template.basic\"");
    }
}
