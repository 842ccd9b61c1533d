//! Building images of catalogs, for crates that need such images and do not know how catalogs are served.

use std::path::{Path, PathBuf};

use fbc::fault::Fault;

use crate::{Descriptor, Platform, Store};

/// The label with the path of the catalog in an image.
pub const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
/// The path of a catalog in the images that opm builds, and the default for an empty label.
pub const CONFIGS: &str = "/configs";

/// A program for each platform of an image; an image without one only holds data.
pub type Programs = Vec<(Platform, Option<PathBuf>)>;

/// Builds images of catalogs, with the cache that serves them.
pub trait CatalogImages {
    /// Builds the image of the catalog in a directory into a store.
    ///
    /// # Errors
    /// Fails when the catalog is invalid, or a file cannot be read or written.
    fn build(&self, directory: &Path, store: &Store, programs: &Programs) -> Result<Descriptor, Box<dyn Fault>>;
}
