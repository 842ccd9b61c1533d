//! The `ImageSetConfiguration` file: the content to mirror.

mod fields;
mod read;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use edit::filter::image_set::PackageRequest;
use image::{Platform, Reference};
use regex::Regex;

pub use read::read;

/// Maximum size of a file.
pub const LIMIT: usize = 4 << 20;

/// A problem in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSetProblem {
    /// The line, starting at 1.
    pub line: usize,
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
}

/// The purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageSetKind {
    /// Content to mirror: `ImageSetConfiguration`.
    Mirror,
    /// Content to delete: `DeleteImageSetConfiguration`.
    Delete,
}

/// The content of a file.
#[derive(Debug, Clone, Default)]
pub struct ImageSet {
    /// The archive size in GiB, if set.
    pub archive_size: Option<u64>,
    pub catalogs: Vec<CatalogRequest>,
    /// Additional images.
    pub additional: Vec<AdditionalImage>,
    /// Patterns of images to exclude.
    pub blocked: Vec<Regex>,
    /// Unsupported parts of the file, each with its line.
    pub unsupported: Vec<(&'static str, usize)>,
}

/// The location of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogLocation {
    Registry(Reference),
    /// An OCI layout directory.
    Layout(PathBuf),
}

impl std::fmt::Display for CatalogLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CatalogLocation::Registry(reference) => reference.fmt(f),
            CatalogLocation::Layout(path) => write!(f, "oci://{}", path.display()),
        }
    }
}

/// The request for one catalog.
#[derive(Debug, Clone)]
pub struct CatalogRequest {
    pub source: CatalogLocation,
    /// Keeps every bundle, not only heads.
    pub full: bool,
    /// The destination repository.
    pub target_catalog: Option<String>,
    /// The destination tag.
    pub target_tag: Option<String>,
    /// The file of a CatalogSource template.
    pub template: Option<String>,
    /// The platforms to mirror; empty means all.
    pub platforms: Vec<Platform>,
    /// The packages to keep; empty means all.
    pub packages: Vec<PackageRequest>,
}

/// An additional image that no catalog references.
#[derive(Debug, Clone)]
pub struct AdditionalImage {
    /// The image.
    pub reference: Reference,
    /// The destination repository.
    pub target_repo: Option<String>,
    /// The destination tag.
    pub target_tag: Option<String>,
    /// The platforms to mirror; empty means all.
    pub platforms: Vec<Platform>,
}
