//! Finds the annotations of a bundle anywhere in its image.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fbc::Limits;
use fbc::json::JsonKind;

use crate::document;
use crate::error::{Error, ReadError};
use crate::file::{self, ReadOutcome};

/// The annotation with the directory of the manifests.
const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
const PACKAGE: &str = crate::metadata::PACKAGE;
const CHANNELS: &str = crate::metadata::CHANNELS;
const DEFAULT_CHANNEL: &str = crate::metadata::DEFAULT_CHANNEL;

/// The annotations that describe a bundle as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleAnnotations {
    pub package: String,
    /// The channels, split at commas.
    pub channels: Vec<String>,
    /// The default channel of the package, or an empty string.
    pub default_channel: String,
    /// The directory of the manifests, relative to the root of the bundle.
    pub manifests: String,
}

/// Why a bundle has no annotations.
#[derive(Debug, thiserror::Error)]
pub enum AnnotationsError {
    /// The usual file cannot be read.
    #[error("error unmarshalling potential bundle metadata {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        source: Box<ReadError>,
    },
    /// A directory cannot be listed.
    #[error(transparent)]
    Directory(#[from] Error),
    /// There are too many files.
    #[error("{} holds more than {limit} files", root.display())]
    TooMany {
        /// The root of the bundle.
        root: PathBuf,
        limit: usize,
    },
    /// No file has annotations.
    #[error("metadata not found in {}", .0.display())]
    NotFound(PathBuf),
    /// The directory of the manifests is missing.
    #[error("manifests directory not defined in bundle metadata")]
    NoManifests,
    /// The package is missing.
    #[error("annotation {PACKAGE} is not defined in bundle metadata")]
    NoPackage,
}

/// Finds the annotations of a bundle: in `metadata/annotations.yaml`, or else in the first file that has any.
///
/// # Errors
/// Fails if there are none, or if a required one is missing.
pub fn find_annotations(root: &Path, limits: &Limits) -> Result<BundleAnnotations, AnnotationsError> {
    let annotations = find(root, limits)?;
    let manifests = annotations.get(MANIFESTS).filter(|path| !path.is_empty());
    let manifests = manifests.ok_or(AnnotationsError::NoManifests)?.clone();
    let package = annotations.get(PACKAGE).filter(|package| !package.is_empty());
    let package = package.ok_or(AnnotationsError::NoPackage)?.clone();
    let channels = annotations.get(CHANNELS).map(String::as_str).unwrap_or_default();
    let channels = channels.split(',').filter(|channel| !channel.is_empty()).map(str::to_owned).collect();
    let default_channel = annotations.get(DEFAULT_CHANNEL).cloned().unwrap_or_default();
    Ok(BundleAnnotations { package, channels, default_channel, manifests })
}

fn find(root: &Path, limits: &Limits) -> Result<BTreeMap<String, String>, AnnotationsError> {
    let usual = root.join("metadata/annotations.yaml");
    match read(&usual, limits) {
        Ok(Some(annotations)) => return Ok(annotations),
        Ok(None) => {}
        Err(_) if !file::exists(&usual) => {}
        Err(error) => return Err(AnnotationsError::Unreadable { path: usual, source: Box::new(error) }),
    }
    let mut count = 0;
    let mut waiting = vec![root.to_path_buf()];
    while let Some(path) = waiting.pop() {
        count += 1;
        if count > limits.files {
            return Err(AnnotationsError::TooMany { root: root.to_owned(), limit: limits.files });
        }
        if file::is_real_directory(&path) {
            let mut inside = names(&path, limits)?;
            // The stack is popped from the end.
            inside.reverse();
            waiting.extend(inside);
        } else if let Ok(Some(annotations)) = read(&path, limits) {
            return Ok(annotations);
        }
    }
    Err(AnnotationsError::NotFound(root.to_owned()))
}

fn names(directory: &Path, limits: &Limits) -> Result<Vec<PathBuf>, Error> {
    let names = file::names(directory, limits)?;
    let shown = names.into_iter().filter(|name| !name.as_encoded_bytes().starts_with(b"."));
    Ok(shown.map(|name| directory.join(name)).collect())
}

/// Reads the annotations in a file, if it has any.
fn read(path: &Path, limits: &Limits) -> Result<Option<BTreeMap<String, String>>, ReadError> {
    let mut bytes = Vec::new();
    match file::read(path, limits, &mut bytes)? {
        ReadOutcome::Read => {}
        ReadOutcome::Directory => return Err(ReadError::Directory),
        ReadOutcome::Unreadable(reason) => return Err(reason.into()),
    }
    let json = document::first(&bytes, limits)?.body.to_json(limits)?;
    let Some(annotations) = json.raw().get("annotations") else { return Ok(None) };
    if annotations.kind() != JsonKind::Object {
        return Ok(None);
    }
    let mut found = BTreeMap::new();
    for (key, value) in annotations.members() {
        let value = value.as_str().ok_or_else(|| ReadError::Annotation(key.clone().into_owned()))?;
        found.insert(key.into_owned(), value.into_owned());
    }
    Ok((!found.is_empty()).then_some(found))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  \
        operators.operatorframework.io.bundle.channels.v1: a,b\n  \
        operators.operatorframework.io.bundle.channel.default.v1: b\n  \
        operators.operatorframework.io.bundle.manifests.v1: manifests/\n";

    fn find_in(files: &[(&str, &str)]) -> Result<BundleAnnotations, String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = find_annotations(root.path(), &Limits::default());
        found.map_err(|error| error.to_string().replace(&root.path().display().to_string(), "[ROOT]"))
    }

    #[test]
    fn annotations_are_found_in_any_file_and_directory() {
        let foo = BundleAnnotations {
            package: "foo".into(),
            channels: vec!["a".into(), "b".into()],
            default_channel: "b".into(),
            manifests: "manifests/".into(),
        };
        assert_eq!(find_in(&[("metadata/annotations.yaml", ANNOTATIONS)]).unwrap(), foo);
        let other = ANNOTATIONS.replace(": foo", ": bar");
        let files = [("a/x.txt", "\t: no"), ("b/annotations.yaml", ANNOTATIONS), ("c/y.yaml", &other)];
        assert_eq!(find_in(&files).unwrap(), foo);
        let hidden = [(".a/x.yaml", other.as_str()), ("b/annotations.yaml", ANNOTATIONS)];
        assert_eq!(find_in(&hidden).unwrap(), foo);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(find_in(&[("metadata/a.yaml", "a: b")]).unwrap_err(), "metadata not found in [ROOT]");
        assert!(
            find_in(&[("metadata/annotations.yaml", "a: [")])
                .unwrap_err()
                .starts_with("error unmarshalling potential bundle metadata [ROOT]/metadata/annotations.yaml: ")
        );
        assert_eq!(
            find_in(&[("metadata/annotations.yaml", "annotations: {a: b}")]).unwrap_err(),
            "manifests directory not defined in bundle metadata"
        );
    }
}
