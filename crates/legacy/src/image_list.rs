//! The list of images that an index was built from: `manifest` prints it, and `add` accepts it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::add::{AddMode, ModeError};
use crate::error::OperationError;
use crate::fetch::FetchError;
use crate::inspect::IndexSources;

/// Images to add, and the packages whose upgrade graph is not built in the mode of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageList {
    /// The images; digests are in today's notation.
    pub images: Vec<String>,
    /// The modes of packages.
    pub modes: BTreeMap<String, AddMode>,
}

/// Why a text is not a list of images.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageListError {
    /// A package has an unknown mode.
    #[error(transparent)]
    Mode(#[from] ModeError),
    /// An image has a malformed digest.
    #[error("{0}: invalid reference format")]
    Reference(String),
}

impl ImageList {
    /// Parses the output of `manifest`, a JSON list, or words separated by commas or whitespace.
    ///
    /// # Errors
    /// Fails when a mode is unknown or a digest malformed.
    pub fn parse(text: &str) -> Result<ImageList, ImageListError> {
        let json: Option<Value> = serde_json::from_str(text).ok();
        let list = json.as_ref().and_then(|json| json.get("bundles").unwrap_or(json).as_array());
        let Some(list) = list else {
            let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
            return Ok(ImageList { images: words.map(reference).collect::<Result<_, _>>()?, modes: BTreeMap::new() });
        };
        let mut modes = BTreeMap::new();
        for (package, mode) in json.as_ref().and_then(|json| json.get("modes")?.as_object()).into_iter().flatten() {
            modes.insert(package.clone(), AddMode::parse(mode.as_str().unwrap_or_default())?);
        }
        let images = list.iter().filter_map(Value::as_str).map(reference).collect::<Result<_, _>>()?;
        Ok(ImageList { images, modes })
    }
}

/// Accepts the old notation of digests: `name:sha256@digest`.
fn reference(text: &str) -> Result<String, ImageListError> {
    match text.split_once(":sha256@") {
        Some((name, digest)) if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Ok(format!("{name}@sha256:{digest}"))
        }
        Some(_) => Err(ImageListError::Reference(text.to_owned())),
        None => Ok(text.to_owned()),
    }
}

/// The report of `manifest`.
#[derive(Debug, Clone, Serialize)]
pub struct ImageReport {
    /// The images.
    pub bundles: Vec<String>,
    /// The modes of the packages that another mode than `replaces` builds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub modes: BTreeMap<String, &'static str>,
    /// What the list does not rebuild as it is.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// Resolves the current digest of an image, and returns its reference with it.
pub type Pin<'a> = &'a dyn Fn(&str) -> Result<String, FetchError>;

impl IndexSources {
    /// Returns the report; `pin` resolves the digests of images that are recorded only by tag.
    ///
    /// # Errors
    /// Fails when a digest is unknown.
    pub fn report(self, pin: Option<Pin<'_>>) -> Result<ImageReport, OperationError> {
        let mut warnings: Vec<String> =
            self.without_image.iter().map(|name| format!("bundle {name} has no image")).collect();
        let mut bundles = self.images;
        for image in &mut bundles {
            match pin {
                Some(pin) => {
                    *image = pin(image).map_err(|source| OperationError::Pin { image: image.clone(), source })?;
                }
                None if !image.contains('@') => {
                    warnings.push(format!("image {image} is recorded only by tag; --pin resolves its digest"));
                }
                None => {}
            }
        }
        let mut modes = BTreeMap::new();
        for (package, mode) in self.modes {
            match mode {
                Some(mode) => drop(modes.insert(package, mode.name())),
                None => warnings.push(format!(
                    "package {package}: no mode builds its upgrade graph from its images; a database that is rebuilt \
                     from this list has another one"
                )),
            }
        }
        Ok(ImageReport { bundles, modes, warnings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_json_or_words() {
        let digest = "a".repeat(64);
        let words = ImageList::parse(&format!("quay.io/a:v1,\nquay.io/b:sha256@{digest}")).unwrap();
        assert_eq!(words.images, ["quay.io/a:v1".to_owned(), format!("quay.io/b@sha256:{digest}")]);
        let listed = ImageList::parse(r#"["quay.io/a:v1"]"#).unwrap();
        assert_eq!(listed.images, ["quay.io/a:v1"]);
        let malformed = ImageList::parse("quay.io/b:sha256@1").unwrap_err();
        assert_eq!(malformed.to_string(), "quay.io/b:sha256@1: invalid reference format");
    }

    #[test]
    fn a_report_can_be_added_again() {
        let modes = [("foo", Some(AddMode::Semver)), ("bar", None)].map(|(name, mode)| (name.to_owned(), mode));
        let manifest = IndexSources {
            images: vec!["quay.io/a:v1".into()],
            without_image: vec!["baz".into()],
            modes: modes.into(),
        };
        let report = manifest.clone().report(None).unwrap();
        assert_eq!(report.warnings.len(), 3, "{report:?}");
        let list = ImageList::parse(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!((list.images, list.modes), (manifest.images.clone(), [("foo".to_owned(), AddMode::Semver)].into()));
        let pinned = manifest.report(Some(&|image| Ok(format!("{image}@sha256:0")))).unwrap();
        assert_eq!(pinned.bundles, ["quay.io/a:v1@sha256:0"]);
    }
}
