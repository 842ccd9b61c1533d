//! Templates: short descriptions that become catalogs.
//!
//! There are three kinds. `basic` is a catalog whose bundles are only named; `semver` lists
//! bundles, and makes the channels and upgrades by their versions; `substitutes` is a catalog in
//! which some bundles give way to repackaged ones. [`composite`] puts several of them together. Bundles live in images, so whoever renders a
//! template supplies them, see [`Bundles`].

mod basic;
pub mod composite;
mod error;
#[cfg(test)]
mod sample;
mod semver;
mod substitutes;

pub use error::{Error, Place};
pub use semver::SemverError;
pub use substitutes::{Reason, SubstitutesError};

use std::collections::{HashMap, HashSet};

use fbc::json::{Object, Path, Raw, Text};
use fbc::shape::Shape;
use fbc::stream::{self, First, StreamError};
use fbc::{Blob, Fbc, Limits};

/// The kinds of templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A catalog whose bundles are given by their images.
    Basic,
    /// Lists of bundles, to be ordered by their versions.
    Semver,
    /// A catalog, and bundles that take the places of others.
    Substitutes,
}

impl Kind {
    /// All kinds, by name.
    pub const ALL: [Kind; 3] = [Kind::Basic, Kind::Semver, Kind::Substitutes];

    /// Returns the name that users give it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Basic => "basic",
            Kind::Semver => "semver",
            Kind::Substitutes => "substitutes",
        }
    }

    /// Returns the schema that such templates state.
    pub fn schema(self) -> &'static str {
        match self {
            Kind::Basic => "olm.template.basic",
            Kind::Semver => "olm.semver",
            Kind::Substitutes => "olm.template.substitutes",
        }
    }

    /// Returns the fields of such templates, beside the schema.
    pub fn shape(self) -> Shape {
        match self {
            Kind::Basic => basic::SHAPE,
            Kind::Semver => semver::SHAPE,
            Kind::Substitutes => substitutes::SHAPE,
        }
    }

    /// Returns the kind of this name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A template, read but not understood yet: the first document of a text.
#[derive(Debug)]
pub struct Template<'a> {
    text: &'a [u8],
    document: Option<First<'a>>,
    json: Text,
}

impl<'a> Template<'a> {
    /// Reads a template, in JSON or YAML.
    ///
    /// A text without content is a template without fields. What follows the first document is
    /// not looked at.
    ///
    /// # Errors
    /// Fails when the document cannot be read.
    pub fn parse(text: &'a [u8], limits: &Limits) -> Result<Template<'a>, StreamError> {
        let (document, json) = match stream::first(text, limits)? {
            Some((first, json)) => (Some(first), json),
            None => (None, Object::new().end()),
        };
        Ok(Template { text, document, json })
    }

    /// Returns the kind of the template by the schema it states.
    ///
    /// # Errors
    /// Fails when there is no schema, or it is none of a template.
    pub fn kind(&self) -> Result<Kind, Error> {
        let schema = self.schema()?;
        if schema.is_empty() {
            return Err(Error::MissingSchema);
        }
        Kind::ALL.into_iter().find(|kind| kind.schema() == schema).ok_or(Error::UnknownSchema(schema))
    }

    /// Returns the schema that the template states, maybe none.
    ///
    /// # Errors
    /// Fails when it is no text.
    pub fn schema(&self) -> Result<String, Error> {
        check(Shape::Object(&[("schema", Shape::Str)]), self.raw())?;
        Ok(self.raw().get("schema").and_then(Raw::as_str).unwrap_or_default().into_owned())
    }

    fn raw(&self) -> Raw<'_> {
        self.json.raw()
    }

    /// Finds a key that an object of the template has twice, with the line it is on.
    fn repeated_key(&self) -> Option<(String, usize)> {
        let repeated = self.document?.repeated_key()?;
        let before = self.text.get(..repeated.offset).unwrap_or_default();
        Some((repeated.key, before.iter().filter(|byte| **byte == b'\n').count() + 1))
    }
}

/// A bundle that was rendered for a template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RenderedBundle {
    /// The `olm.bundle` blob.
    pub json: String,
    /// The JSON of its CSV, if the blob does not hold it.
    pub csv: Option<String>,
}

/// Supplies the bundles that references in a template stand for: an answer for each, or why there is none.
///
/// References come together and none twice, so that whatever they name can be fetched at once.
pub type Bundles<'a> = dyn FnMut(&[&str]) -> Vec<Result<Vec<RenderedBundle>, String>> + 'a;

/// Renders a template as one of a kind: returns the catalog that it describes.
///
/// Only the substitutes template gives a catalog that is certain to be valid.
///
/// # Errors
/// Fails when the template is not of that kind or has faults, and when `bundles` fails.
pub fn render(template: &Template<'_>, kind: Kind, limits: &Limits, bundles: &mut Bundles<'_>) -> Result<Fbc, Error> {
    let found = template.schema()?;
    if found != kind.schema() {
        return Err(Error::WrongSchema { found, expected: kind.schema() });
    }
    match kind {
        Kind::Basic => basic::render(template.raw(), limits, bundles),
        Kind::Semver => Ok(semver::render(template, limits, bundles)?),
        Kind::Substitutes => Ok(substitutes::render(template.raw(), limits, bundles)?),
    }
}

/// Renders the first form of the basic template: the documents of a catalog, in which bundles are given by their images.
///
/// # Errors
/// Fails when a document is no blob or a bundle is more than its image, and when `bundles` fails.
pub fn render_plain(documents: &[Text], limits: &Limits, bundles: &mut Bundles<'_>) -> Result<Fbc, Error> {
    basic::render_plain(documents, limits, bundles)
}

/// Makes a catalog of documents that are all blobs.
///
/// # Errors
/// Fails when one is none; all that are none are reported.
pub fn load_blobs(documents: &[Text], limits: &Limits) -> Result<Fbc, Error> {
    let mut fbc = Fbc::default();
    let made = blobs(documents.iter().map(Text::raw), "documents", &fbc, limits)?;
    made.into_iter().for_each(|(_, blob)| fbc.push(blob));
    Ok(fbc)
}

/// Checks the types of a template's fields.
fn check(shape: Shape, document: Raw<'_>) -> Result<(), Error> {
    shape.check(document, &Path::default()).map_err(|mismatch| Error::Fields(mismatch.to_string()))
}

/// Makes blobs of the entries of a template. All that are none are reported.
fn entries<'a>(document: Raw<'a>, fbc: &Fbc, limits: &Limits) -> Result<Vec<(Raw<'a>, Blob)>, Error> {
    blobs(document.get("entries").into_iter().flat_map(Raw::items), "entries", fbc, limits)
}

/// Makes blobs of the items of a list. All that are none are reported.
fn blobs<'a>(
    items: impl Iterator<Item = Raw<'a>>,
    list: &str,
    fbc: &Fbc,
    limits: &Limits,
) -> Result<Vec<(Raw<'a>, Blob)>, Error> {
    let mut blobs = Vec::new();
    let mut faults = Vec::new();
    for (index, item) in items.enumerate() {
        match fbc.stored_blob(item.text(), limits) {
            Ok(blob) => blobs.push((item, blob)),
            Err(error) => faults.push(format!("{list}[{index}]: {error}")),
        }
    }
    if faults.is_empty() { Ok(blobs) } else { Err(Error::Entries(faults)) }
}

/// Bundles by the references that stand for them.
type Supply = HashMap<String, Result<Vec<RenderedBundle>, Error>>;

/// Asks for the bundles of references.
fn fetch<'r>(bundles: &mut Bundles<'_>, references: impl IntoIterator<Item = &'r str>) -> Supply {
    let mut seen = HashSet::new();
    let references: Vec<&str> = references.into_iter().filter(|reference| seen.insert(*reference)).collect();
    if references.is_empty() {
        return Supply::new();
    }
    let mut answers = bundles(&references).into_iter();
    let supply = references.into_iter().map(|reference| {
        let answer = answers.next().unwrap_or_else(|| Err("nothing was supplied".to_owned()));
        let failed = |message| Error::Bundle { reference: reference.to_owned(), message };
        (reference.to_owned(), answer.map_err(failed))
    });
    supply.collect()
}

/// Asks for the bundles of references, all of which must be there. What is not is reported, all of it.
fn fetch_all<'r>(
    bundles: &mut Bundles<'_>,
    references: impl IntoIterator<Item = &'r str> + Clone,
) -> Result<HashMap<String, Vec<RenderedBundle>>, Error> {
    let mut supply = fetch(bundles, references.clone());
    let mut found = HashMap::new();
    let mut missing = Vec::new();
    for reference in references {
        match supply.remove(reference) {
            Some(Ok(rendered)) => {
                found.insert(reference.to_owned(), rendered);
            }
            Some(Err(error)) => missing.push(error),
            // The same reference again.
            None => {}
        }
    }
    match missing.len() {
        0 => Ok(found),
        1 => Err(missing.remove(0)),
        _ => Err(Error::Several(missing)),
    }
}

/// Makes a blob of a rendered bundle.
fn made(fbc: &Fbc, reference: &str, json: &str, limits: &Limits) -> Result<Blob, Error> {
    fbc.make(json, limits)
        .map_err(|error| Error::Bundle { reference: reference.to_owned(), message: error.to_string() })
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
    fn the_schema_tells_the_kind() {
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
    fn the_kind_that_is_asked_for_must_be_the_one_that_is_stated() {
        let template = Template::parse(b"schema: olm.semver\n", &Limits::default()).unwrap();
        let error = render(&template, Kind::Basic, &Limits::default(), &mut |_| Vec::new()).err().unwrap();
        assert_eq!(error.to_string(), "template has unknown schema (\"olm.semver\"), should be \"olm.template.basic\"");
    }
}
