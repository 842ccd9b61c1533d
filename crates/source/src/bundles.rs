//! Reads bundles.

use std::path::Path;

use bundle::LoadedBundle;
use fbc::{Limits, base64, property};
use serde_json::{Value, json};

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

/// Adds the objects of the image to the blob of a bundle, as properties. Returns `None` if the blob has objects already
/// or no image.
///
/// # Errors
/// Fails when the image cannot be read.
pub fn with_objects(blob: &str, images: &Images, limits: &Limits) -> Result<Option<String>, SourceError> {
    let Ok(mut blob) = serde_json::from_str::<Value>(blob) else { return Ok(None) };
    let image = blob["image"].as_str().unwrap_or_default().to_owned();
    let Some(properties) = blob["properties"].as_array_mut().filter(|_| !image.is_empty()) else { return Ok(None) };
    if properties.iter().any(|property| property["type"] == property::BUNDLE_OBJECT) {
        return Ok(None);
    }
    for object in &read(&image, images, limits)?.whole.objects {
        let mut data = Vec::new();
        base64::encode(object.value.to_string().as_bytes(), &mut data);
        let data = String::from_utf8(data).unwrap_or_default();
        properties.push(json!({"type": property::BUNDLE_OBJECT, "value": {"data": data}}));
    }
    Ok(Some(blob.to_string()))
}
