//! The file `kind: ImageSetConfiguration`: what somebody wants to have in a closed network.

mod fields;
mod read;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use edit::filter::image_set::PackageRequest;
use image::{Platform, Reference};
use regex::Regex;

pub use read::read;

/// The largest file.
pub const LIMIT: usize = 4 << 20;

/// Something that is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To bring over: `ImageSetConfiguration`.
    Mirror,
    /// What to remove: `DeleteImageSetConfiguration`.
    Delete,
}

/// What a file asks for.
#[derive(Debug, Clone, Default)]
pub struct ImageSet {
    /// The size of an archive in GiB, if one is written.
    pub archive_size: Option<u64>,
    /// The catalogs.
    pub catalogs: Vec<CatalogRequest>,
    /// Images that no catalog names.
    pub additional: Vec<AdditionalImage>,
    /// What is never brought over.
    pub blocked: Vec<Regex>,
    /// Parts of the file that nothing is done for, each with its line.
    pub unsupported: Vec<(&'static str, usize)>,
}

/// Where a catalog is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogSource {
    /// In a registry.
    Registry(Reference),
    /// In a directory that is an OCI layout.
    Layout(PathBuf),
}

impl std::fmt::Display for CatalogSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CatalogSource::Registry(reference) => reference.fmt(f),
            CatalogSource::Layout(path) => write!(f, "oci://{}", path.display()),
        }
    }
}

/// What is asked for of a catalog.
#[derive(Debug, Clone)]
pub struct CatalogRequest {
    /// Where it is.
    pub source: CatalogSource,
    /// Every bundle of what is kept, not only heads.
    pub full: bool,
    /// The repository at the destination.
    pub target_catalog: Option<String>,
    /// The tag at the destination.
    pub target_tag: Option<String>,
    /// The file with a CatalogSource to start from.
    pub template: Option<String>,
    /// The platforms whose images are brought over; all of them if none is named.
    pub platforms: Vec<Platform>,
    /// What is kept; everything if nothing is named.
    pub packages: Vec<PackageRequest>,
}

impl CatalogRequest {
    /// Returns whether the catalog goes over as it is.
    pub fn is_whole(&self) -> bool {
        self.full && self.packages.is_empty()
    }
}

/// An image that no catalog names.
#[derive(Debug, Clone)]
pub struct AdditionalImage {
    /// The image.
    pub reference: Reference,
    /// The repository at the destination.
    pub target_repo: Option<String>,
    /// The tag at the destination.
    pub target_tag: Option<String>,
    /// The platforms that are brought over; all of them if none is named.
    pub platforms: Vec<Platform>,
}
