//! Reads bundles.

use std::path::Path;

use bundle::LoadedBundle;
use fbc::Limits;

use crate::error::SourceError;
use crate::images::Images;
use crate::resolve::{NamedSource, resolve_one};

/// Reads a bundle from a directory or an image.
///
/// # Errors
/// Fails when the source is no bundle, or cannot be read.
pub fn read(reference: &str, images: &Images, limits: &Limits) -> Result<LoadedBundle, SourceError> {
    let local = Path::new(reference).is_dir();
    let directory = match resolve_one(reference, images).map_err(|error| error.named(reference))? {
        NamedSource::Bundle(directory, _) => directory,
        NamedSource::Catalog(path) if path.join("manifests").is_dir() => path,
        NamedSource::Catalog(_) | NamedSource::Database(_) => {
            return Err(SourceError::NotABundle(reference.to_owned()));
        }
    };
    Ok(LoadedBundle::from_directory(directory, local.then(|| reference.to_owned()), limits)?)
}
