//! The page data of packages.

use std::io;

use super::Cache;
use super::data::ExtentReader;
use super::format::{self, ContentDigest, SectionKind};

/// The maximum size of a summary.
const LARGEST: usize = 1 << 28;

impl Cache {
    /// Returns the digest of the catalog's content.
    pub(crate) fn revision(&self) -> String {
        let mut all = Vec::new();
        for package in self.table::<format::Package>(SectionKind::Packages).iter() {
            all.extend_from_slice(self.text_bytes(package.name).unwrap_or_default());
            all.extend_from_slice(&package.content.0.to_le_bytes());
        }
        all.extend_from_slice(&self.about().unowned.0.to_le_bytes());
        format!("{:016x}", ContentDigest::of(&all).0 as u64)
    }

    /// Returns the names of the packages, in order.
    pub(crate) fn package_names(&self) -> Vec<String> {
        let packages = self.table::<format::Package>(SectionKind::Packages);
        packages.iter().filter_map(|package| self.text(package.name).map(str::to_owned)).collect()
    }

    /// Returns whether all packages have page data.
    pub(super) fn has_summaries(&self) -> bool {
        self.table::<format::Package>(SectionKind::Packages).iter().all(|package| package.summary_length > 0)
    }

    /// Returns the page data of a package.
    ///
    /// # Errors
    /// Fails when there is none, or it is damaged.
    pub(crate) fn summary(&self, package: &str) -> io::Result<Vec<u8>> {
        let found = self.package_named(package)?;
        let length = found.summary_length as usize;
        if length == 0 {
            return Err(io::Error::other("the cache was built without page data"));
        }
        let mut reader = ExtentReader::default();
        let packed = reader.extent(self, &found.summary, 0).map_err(|error| io::Error::other(error.to_string()))?;
        zstd::bulk::decompress(packed, length.min(LARGEST))
    }

    /// Returns the icon of a package, empty if it has none.
    ///
    /// # Errors
    /// Fails when there is no such package, or the icon is damaged.
    pub(crate) fn icon(&self, package: &str) -> io::Result<Vec<u8>> {
        let found = self.package_named(package)?;
        let mut reader = ExtentReader::default();
        let bytes = reader.extent(self, &found.icon, 0).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(bytes.to_vec())
    }

    fn package_named(&self, name: &str) -> io::Result<format::Package> {
        self.find_package(name).map(|(_, package)| package).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
