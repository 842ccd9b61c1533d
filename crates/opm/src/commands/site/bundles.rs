//! Adds the manifests that a catalog lacks from its bundle images.

use std::io;
use std::sync::{Mutex, PoisonError};

use fbc::Limits;
use site::console::ConsoleStore;
use source::{Images, bundles};

/// A catalog whose bundles have their manifests, from the catalog or from images.
pub(super) struct WithManifests<'a> {
    pub(super) catalog: &'a dyn ConsoleStore,
    /// Pulls images; `None` to read only the catalog.
    pub(super) images: Option<&'a Images>,
    pub(super) limits: &'a Limits,
    /// Bundles whose images could not be read, with the error.
    pub(super) unread: Mutex<Vec<String>>,
}

impl WithManifests<'_> {
    /// Returns the blob with the objects of the bundle image; `None` if it has them already or the image cannot be read.
    fn completed(&self, images: &Images, name: &str, blob: &str) -> Option<String> {
        bundles::with_objects(blob, images, self.limits).unwrap_or_else(|error| {
            self.unread.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}: {error}"));
            None
        })
    }
}

impl ConsoleStore for WithManifests<'_> {
    fn revision(&self) -> String {
        self.catalog.revision()
    }

    fn packages(&self) -> Vec<String> {
        self.catalog.packages()
    }

    fn summary(&self, package: &str) -> io::Result<Vec<u8>> {
        self.catalog.summary(package)
    }

    fn icon(&self, package: &str) -> io::Result<Vec<u8>> {
        self.catalog.icon(package)
    }

    fn bundle(&self, package: &str, bundle: &str) -> io::Result<String> {
        let blob = self.catalog.bundle(package, bundle)?;
        Ok(self.images.and_then(|images| self.completed(images, bundle, &blob)).unwrap_or(blob))
    }
}
