//! A bundle that was read, with the place of its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fbc::Limits;
use serde_json::{Value, json};

use crate::check::{MANIFESTS, MEDIA_TYPE, METADATA};
use crate::error::Error;
use crate::file::ReadOutcome;
use crate::finding::Finding;
use crate::metadata::PACKAGE;
use crate::whole::{self, BundleFiles, ParsedBundle};

/// A bundle that was read.
#[derive(Debug)]
pub struct LoadedBundle {
    /// Its objects and metadata.
    pub whole: ParsedBundle,
    /// The limits it was read with.
    pub limits: Limits,
    place: BundlePlace,
}

/// Where the files of a bundle are.
#[derive(Debug)]
enum BundlePlace {
    /// In a directory; `shown` is its path as the user wrote it, or `None` for an image.
    Directory { path: PathBuf, shown: Option<String> },
    /// Nowhere: these are the files that a bundle with the objects of a catalog would have.
    Catalog(BTreeMap<String, Vec<u8>>),
}

impl LoadedBundle {
    /// Reads a bundle directory; `shown` is its path as the user wrote it, if the user can open it.
    ///
    /// # Errors
    /// Fails when a file cannot be read.
    pub fn from_directory(path: PathBuf, shown: Option<String>, limits: &Limits) -> Result<LoadedBundle, Error> {
        let whole = whole::read_files(BundleFiles::In(&path), limits)?;
        Ok(LoadedBundle { whole, limits: limits.clone(), place: BundlePlace::Directory { path, shown } })
    }

    /// Creates a bundle of a package from objects of a catalog, and dependencies in the format of `dependencies.yaml`.
    ///
    /// # Errors
    /// Fails when the objects exceed the limits.
    pub fn from_objects(
        package: &str,
        objects: Vec<String>,
        dependencies: &[Value],
        limits: &Limits,
    ) -> Result<LoadedBundle, Error> {
        let annotations = json!({"annotations": {PACKAGE: package, MANIFESTS: "manifests/", METADATA: "metadata/", MEDIA_TYPE: "registry+v1"}});
        let named = |(number, object): (usize, String)| (format!("manifests/{number:04}.json"), object.into_bytes());
        let mut files: BTreeMap<String, Vec<u8>> = objects.into_iter().enumerate().map(named).collect();
        files.insert("metadata/annotations.yaml".into(), annotations.to_string().into_bytes());
        if !dependencies.is_empty() {
            let text = json!({"dependencies": dependencies}).to_string();
            files.insert("metadata/dependencies.yaml".into(), text.into_bytes());
        }
        let whole = whole::read_files(BundleFiles::Given(&files), limits)?;
        Ok(LoadedBundle { whole, limits: limits.clone(), place: BundlePlace::Catalog(files) })
    }

    /// Returns the contents of the files that were read; one that is gone by now counts as absent.
    pub(crate) fn contents(&self) -> impl Iterator<Item = Vec<u8>> {
        let files = match &self.place {
            BundlePlace::Directory { path, .. } => BundleFiles::In(path),
            BundlePlace::Catalog(files) => BundleFiles::Given(files),
        };
        self.whole.files.iter().filter_map(move |file| {
            let mut text = Vec::new();
            let outcome = files.read(Path::new(&file.name), &self.limits, &mut text);
            matches!(outcome, Ok(ReadOutcome::Read)).then_some(text)
        })
    }

    /// Adds positions to findings, and paths that the user can open. Findings about objects of a catalog have none.
    pub fn locate(&self, findings: &mut [Finding]) {
        match &self.place {
            BundlePlace::Directory { path, shown } => locate(findings, path, shown.as_deref(), &self.limits),
            BundlePlace::Catalog(_) => findings.iter_mut().for_each(|finding| finding.file.clear()),
        }
    }
}

/// Adds positions in the bundle's directory to findings, and paths below `shown` that the user can open.
pub(crate) fn locate(findings: &mut [Finding], directory: &Path, shown: Option<&str>, limits: &Limits) {
    let mut files: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, finding) in findings.iter().enumerate() {
        if !finding.file.is_empty() {
            files.entry(finding.file.clone()).or_default().push(at);
        }
    }
    // Read each file only once.
    for (file, numbers) in files {
        let wanted: Vec<(usize, &str)> =
            numbers.iter().map(|at| (findings[*at].document, findings[*at].pointer.as_str())).collect();
        let positions = whole::positions(directory, &file, &wanted, limits);
        for (at, position) in numbers.into_iter().zip(positions) {
            let finding = &mut findings[at];
            finding.position = finding.position.or(position);
            if let Some(shown) = shown {
                finding.file = Path::new(shown).join(&file).display().to_string();
            }
        }
    }
}
