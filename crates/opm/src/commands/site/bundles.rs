//! Manifests that a catalog does not carry, from the images of its bundles.

use std::io;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use site::console::Store;

use crate::bundles;
use crate::exit::Failure;
use crate::images::Images;

/// A catalog whose bundles have their manifests, wherever these are.
pub(super) struct WithManifests<'a> {
    pub(super) catalog: &'a dyn Store,
    /// Where images come from; nothing if only the catalog is read.
    pub(super) images: Option<&'a Images>,
    /// Bundles whose images could not be read, and why.
    pub(super) unread: Mutex<Vec<String>>,
}

impl WithManifests<'_> {
    /// Adds the objects of the bundle's image to its blob, as a catalog carries them; nothing if they need not be.
    fn completed(&self, images: &Images, name: &str, blob: &str) -> Option<String> {
        let mut blob: Value = serde_json::from_str(blob).ok()?;
        let image = blob["image"].as_str().filter(|image| !image.is_empty())?.to_owned();
        let properties = blob["properties"].as_array_mut()?;
        if properties.iter().any(|property| property["type"] == fbc::property::BUNDLE_OBJECT) {
            return None;
        }
        let read = match bundles::read(&image, images) {
            Ok(read) => read,
            Err(error) => {
                let reason = match error {
                    Failure::Message(reason) => reason,
                    _ => format!("{image} cannot be read"),
                };
                self.unread.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}: {reason}"));
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

impl Store for WithManifests<'_> {
    fn revision(&self) -> String {
        self.catalog.revision()
    }

    fn packages(&self) -> Vec<String> {
        self.catalog.packages()
    }

    fn shelf(&self, package: &str) -> io::Result<Vec<u8>> {
        self.catalog.shelf(package)
    }

    fn icon(&self, package: &str) -> io::Result<Vec<u8>> {
        self.catalog.icon(package)
    }

    fn bundle(&self, package: &str, bundle: &str) -> Result<String, String> {
        let blob = self.catalog.bundle(package, bundle)?;
        Ok(self.images.and_then(|images| self.completed(images, bundle, &blob)).unwrap_or(blob))
    }
}
