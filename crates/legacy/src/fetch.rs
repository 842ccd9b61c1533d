//! The images that an operation needs. Pulling them is up to the caller.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use fbc::fault::{Class, Fault};

use crate::add::BundleToAdd;

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FetchError(Box<dyn Fault>);

impl FetchError {
    /// Creates an error from that of the implementation.
    pub fn new(error: impl Fault) -> FetchError {
        FetchError(Box::new(error))
    }
}

impl Fault for FetchError {
    fn class(&self) -> Class {
        self.0.class()
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        self.0.hint()
    }
}

/// Fetches the content of images.
pub trait Fetch {
    /// Fetches bundles: images are pulled together and unpacked, directories are used in place.
    ///
    /// # Errors
    /// Fails when one cannot be fetched, and names all of these.
    fn bundles(&self, references: &[String]) -> Result<Vec<BundleToAdd>, FetchError>;

    /// Unpacks images, and returns their directories in order.
    fn unpack(&self, images: &[&str]) -> Vec<Result<PathBuf, FetchError>>;

    /// Unpacks an image, and returns its directory.
    ///
    /// # Errors
    /// Fails when the image cannot be pulled or unpacked.
    fn unpack_one(&self, image: &str) -> Result<PathBuf, FetchError>;

    /// Copies the database of an index image to `target`.
    ///
    /// # Errors
    /// Fails when the image has none.
    fn database(&self, image: &str, target: &Path) -> Result<(), FetchError>;
}
