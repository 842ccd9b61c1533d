//! Reads bundles.

use std::path::{Path, PathBuf};

use bundle::Whole;
use fbc::Limits;
use fbc::scratch::TempFolder;

use crate::error::SourceError;
use crate::images::Images;
use crate::resolve::{Source, resolve_one};

/// A loaded bundle.
pub struct LoadedBundle {
    /// Its directory.
    pub directory: PathBuf,
    /// The directory as the user wrote it; `None` for an image.
    pub shown: Option<String>,
    /// Its objects and metadata.
    pub whole: Whole,
    /// The limits it was read with.
    pub limits: Limits,
    /// The temporary directory for objects from a catalog. The user cannot open its files.
    pub(crate) scratch: Option<TempFolder>,
}

impl LoadedBundle {
    /// Reads a bundle directory.
    ///
    /// # Errors
    /// Fails when a file cannot be read.
    pub fn from_directory(
        directory: PathBuf,
        shown: Option<String>,
        limits: &Limits,
    ) -> Result<LoadedBundle, SourceError> {
        let whole = bundle::read_whole(&directory, limits)?;
        Ok(LoadedBundle { directory, shown, whole, limits: limits.clone(), scratch: None })
    }

    /// Returns whether the bundle is files that the user or an image has, and not objects of a catalog.
    pub fn has_files(&self) -> bool {
        self.scratch.is_none()
    }
}

/// Reads a bundle from a directory or an image.
///
/// # Errors
/// Fails when the source is no bundle, or cannot be read.
pub fn read(reference: &str, images: &Images, limits: &Limits) -> Result<LoadedBundle, SourceError> {
    let local = Path::new(reference).is_dir();
    let directory = match resolve_one(reference, images).map_err(|error| error.named(reference))? {
        Source::Bundle(directory, _) => directory,
        Source::Catalog(path) if path.join("manifests").is_dir() => path,
        Source::Catalog(_) | Source::Database(_) => return Err(SourceError::NotABundle(reference.to_owned())),
    };
    LoadedBundle::from_directory(directory, local.then(|| reference.to_owned()), limits)
}
