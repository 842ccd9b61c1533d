//! Decides what a name means.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use image::Location;

use crate::error::SourceError;
use crate::images::{Fetched, ImageKind, Images};

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedSource {
    /// A directory with a file-based catalog, or a single file of one.
    Catalog(PathBuf),
    /// A directory with a bundle, and its image, or an empty string.
    Bundle(PathBuf, String),
    /// A file with a database index.
    Database(PathBuf),
}

/// The magic bytes of SQLite files.
const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Resolves names; pulls images together and unpacks them.
pub fn resolve(references: &[&str], images: &Images) -> Vec<Result<NamedSource, SourceError>> {
    let mut found: Vec<Option<Result<NamedSource, SourceError>>> = references.iter().map(|one| local(one)).collect();
    let pulled: Vec<&str> = references.iter().zip(&found).filter(|(_, it)| it.is_none()).map(|(one, _)| *one).collect();
    let mut fetched = if pulled.is_empty() { Vec::new() } else { images.fetch(&pulled) }.into_iter();
    for one in found.iter_mut().filter(|one| one.is_none()) {
        *one = fetched.next().map(|fetched| fetched.and_then(|fetched| unpack(&fetched, images)));
    }
    found.into_iter().flatten().collect()
}

/// Resolves one name.
///
/// # Errors
/// Fails when nothing has the name, or an image cannot be pulled.
pub fn resolve_one(reference: &str, images: &Images) -> Result<NamedSource, SourceError> {
    match local(reference) {
        Some(found) => found,
        None => unpack(&images.fetch_one(reference)?, images),
    }
}

/// Resolves a path; `None` if the reference is not a path.
fn local(reference: &str) -> Option<Result<NamedSource, SourceError>> {
    let path = Path::new(reference);
    let metadata = path.metadata();
    if metadata.is_err() && Location::is_image(reference) {
        return None;
    }
    Some(match metadata {
        Ok(metadata) if metadata.is_dir() && fbc::load::is_bundle_dir(path) => {
            Ok(NamedSource::Bundle(path.into(), String::new()))
        }
        Ok(metadata) if metadata.is_dir() => Ok(NamedSource::Catalog(path.into())),
        Ok(_) if is_database(path) => Ok(NamedSource::Database(path.into())),
        Ok(metadata) if metadata.is_file() => Ok(NamedSource::Catalog(path.into())),
        Ok(_) => Err(SourceError::FileType(reference.to_owned())),
        Err(error) => Err(no_source(reference).unwrap_or(SourceError::Io(error))),
    })
}

/// Explains why a name is neither a directory nor an image; `None` if it can be an image.
pub fn no_source(reference: &str) -> Option<SourceError> {
    let no_image = Location::parse(reference).err()?;
    if reference.is_empty() {
        return Some(SourceError::EmptyName);
    }
    let is_path = ["/", "./", "../"].iter().any(|start| reference.starts_with(start));
    Some(match Path::new(reference).metadata() {
        Ok(_) => SourceError::NotADirectory,
        Err(error) if error.kind() != io::ErrorKind::NotFound => SourceError::Io(error),
        Err(_) if is_path => SourceError::NoPath,
        Err(_) => SourceError::Neither(no_image),
    })
}

/// Returns whether a file is a SQLite database, by its magic bytes.
pub fn is_database(path: &Path) -> bool {
    let mut magic = [0; SQLITE_MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *SQLITE_MAGIC
}

/// Unpacks the catalog, database or bundle of an image.
pub(crate) fn unpack(fetched: &Fetched, images: &Images) -> Result<NamedSource, SourceError> {
    let image = &fetched.image;
    let reference = || image.reference.clone();
    match &fetched.kind {
        ImageKind::Catalog(path) => Ok(NamedSource::Catalog(images.index(image, path)?.path)),
        ImageKind::Database(path) => Ok(NamedSource::Database(images.index(image, path)?.path)),
        ImageKind::Bundle => Ok(NamedSource::Bundle(images.unpack_to_temp(image)?, reference())),
        ImageKind::Other(labels) if labels.is_empty() => Err(SourceError::NoLabels(reference())),
        ImageKind::Other(labels) => {
            Err(SourceError::OtherLabels { reference: reference(), labels: labels.clone().into_iter().collect() })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use fbc::Limits;
    use image::Environment;

    use super::*;
    use crate::images::PullSettings;
    use crate::progress::NoProgress;

    fn images(folder: &Path) -> Images {
        let settings = PullSettings { offline: true, ..PullSettings::new(Environment::isolated(folder, &[])) };
        Images::new(settings, Arc::new(NoProgress), Arc::new(image::NoEvents))
    }

    #[test]
    fn a_name_is_decided_by_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for directory in ["catalog", "bundle/manifests", "bundle/metadata"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("bundle/metadata/annotations.yaml"), "annotations: {}").unwrap();
        fs::write(root.join("foo.yaml"), "schema: a").unwrap();
        fs::write(root.join("index.db"), [&SQLITE_MAGIC[..], &[0; 84]].concat()).unwrap();
        let images = images(root);
        let found = |name: &str| {
            let path = root.join(name);
            (resolve_one(path.to_str().unwrap(), &images).map_err(|error| error.to_string()), path)
        };
        for (name, source) in [
            ("catalog", NamedSource::Catalog as fn(PathBuf) -> NamedSource),
            ("foo.yaml", NamedSource::Catalog),
            ("index.db", NamedSource::Database),
            ("bundle", |path| NamedSource::Bundle(path, String::new())),
        ] {
            let (found, path) = found(name);
            assert_eq!(found, Ok(source(path)), "{name}");
        }
        assert_eq!(found("none").0, Err("the path does not exist".to_owned()));
    }

    #[test]
    fn a_name_that_means_nothing_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let images = images(folder.path());
        for (name, expected) in [
            ("", "the name is empty"),
            ("./none", "the path does not exist"),
            ("none", "the path does not exist, and it is not an image reference: "),
            ("/dev/null", "ref \"/dev/null\" has unsupported file type"),
            ("registry.test/a:v1", "--offline requires an image cache"),
        ] {
            let error = resolve_one(name, &images).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{name}: {error}");
        }
        let errors: Vec<String> = resolve(&["registry.test/a:v1", "", "registry.test/b:v1"], &images)
            .into_iter()
            .map(|found| found.unwrap_err().to_string())
            .collect();
        assert!(errors[0].contains("--offline") && errors[1].contains("empty") && errors[2].contains("--offline"));
    }

    #[test]
    fn a_single_file_gets_its_own_directory() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("foo.yaml"), "schema: a").unwrap();
        fs::write(folder.path().join("bar.yaml"), "schema: b").unwrap();
        let file = folder.path().join("foo.yaml");
        let found = crate::directory(file.to_str().unwrap(), &images(folder.path()), &Limits::default()).unwrap();
        let names: Vec<_> = fs::read_dir(found.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["foo.yaml"]);
        let made = found.path().to_path_buf();
        drop(found);
        assert!(!made.exists() && file.exists());
    }
}
