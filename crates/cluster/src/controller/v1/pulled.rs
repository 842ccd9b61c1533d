//! Pulls the images of catalogs.

use std::error::Error;
use std::path::Path;

use image::{CONFIGS_LABEL, Location, Reference};
use source::{ImageKind, Images, SourceError};

use super::{CatalogServer, ServeError};

/// Keeps the content of catalogs and serves it.
pub trait CatalogContents: Send + Sync {
    /// Serves the catalog in a directory under a name. The directory is deleted afterwards.
    ///
    /// # Errors
    /// Fails if the directory holds no valid catalog; the previous content stays.
    fn put(&self, name: &str, directory: &Path) -> Result<(), Box<dyn Error>>;

    /// Stops serving the catalog.
    fn remove(&self, name: &str);
}

/// Serves the content of catalog images.
pub struct PulledCatalogs<C> {
    pub contents: C,
    /// Prepares to pull an image. Dropping the result deletes what was pulled.
    pub images: Box<dyn Fn() -> Images + Send + Sync>,
}

/// Resolves an image to its current digest.
fn resolved(images: &Images, image: &str) -> Result<Reference, SourceError> {
    let Location::Registry(reference) = Location::parse(image)? else {
        return Err(SourceError::NotInRegistry(image.to_owned()));
    };
    match reference.digest() {
        Some(digest) => Ok(reference.with_digest(*digest)),
        None => Ok(reference.with_digest(images.client()?.head(&reference)?)),
    }
}

impl<C: CatalogContents> CatalogServer for PulledCatalogs<C> {
    fn serve(&self, name: &str, image: &str, known: Option<&str>) -> Result<String, ServeError> {
        let failed = |message: &dyn std::fmt::Display, is_permanent: bool| ServeError {
            message: format!("source catalog content: {message}"),
            is_permanent,
        };
        let images = (self.images)();
        let pinned = resolved(&images, image).map_err(|error| failed(&error, false))?.to_string();
        if known == Some(&pinned) {
            return Ok(pinned);
        }
        let fetched = images.fetch_one(&pinned).map_err(|error| failed(&error, false))?;
        // A digest never changes, so a retry cannot help.
        let by_digest = image.contains('@');
        let ImageKind::Catalog(path) = &fetched.kind else {
            let text = format!("catalog image is missing the required label {CONFIGS_LABEL:?}");
            return Err(failed(&text, by_digest));
        };
        let unpacked = images.index(&fetched.image, path);
        let unpacked = unpacked.map_err(|error| failed(&error, by_digest && !error.is_transient()))?;
        self.contents.put(name, &unpacked.path).map_err(|error| failed(&error, by_digest))?;
        tracing::info!(catalog = name, image = pinned, "served");
        Ok(pinned)
    }

    fn withdraw(&self, name: &str) {
        self.contents.remove(name);
    }
}
