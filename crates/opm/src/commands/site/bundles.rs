//! Adds the manifests that a catalog lacks from its bundle images.

use std::io;
use std::sync::{Mutex, PoisonError};

use fbc::Limits;
use serde_json::{Value, json};
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
    /// Adds the objects of the bundle image to the blob as properties. Returns `None` if the blob has them already or the
    /// image cannot be read.
    fn completed(&self, images: &Images, name: &str, blob: &str) -> Option<String> {
        let mut blob: Value = serde_json::from_str(blob).ok()?;
        let image = blob["image"].as_str().filter(|image| !image.is_empty())?.to_owned();
        let properties = blob["properties"].as_array_mut()?;
        if properties.iter().any(|property| property["type"] == fbc::property::BUNDLE_OBJECT) {
            return None;
        }
        let read = match bundles::read(&image, images, self.limits) {
            Ok(read) => read,
            Err(error) => {
                self.unread.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}: {error}"));
                return None;
            }
        };
        for object in &read.whole.objects {
            let mut data = Vec::new();
            fbc::base64::encode(object.value.to_string().as_bytes(), &mut data);
            let data = String::from_utf8(data).unwrap_or_default();
            properties.push(json!({"type": fbc::property::BUNDLE_OBJECT, "value": {"data": data}}));
        }
        Some(blob.to_string())
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
