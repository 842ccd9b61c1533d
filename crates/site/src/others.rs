//! Compares a catalog with others, for the page of changes.

use std::io;
use std::slice;

use catalog::{Catalog, Warnings};
use edit::Outline;
use edit::diff::{DiffSide, changes};
use edit::upgrades::{self, Offered};
use fbc::{Fbc, Limits, LoadReport};
use resolve::input::CatalogInput;

use crate::pages::changes::{CatalogDifferences, ComparedCatalog};

/// Why the blobs of a catalog cannot be compared.
#[derive(Debug, thiserror::Error)]
enum CompareError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Text(#[from] std::str::Utf8Error),
    #[error("package {package}: {source}")]
    Blob { package: String, source: io::Error },
    #[error("its blobs are not complete yet")]
    Incomplete,
}

/// A catalog prepared for comparison.
struct Comparable {
    fbc: Fbc,
    catalog: Catalog,
    outline: Outline,
    source: CatalogInput,
}

impl Comparable {
    fn new(fbc: Fbc, catalog: Catalog) -> io::Result<Comparable> {
        let outline = Outline::new(&fbc);
        let source = upgrades::source_of(&fbc, &outline)?;
        Ok(Comparable { fbc, catalog, outline, source })
    }

    /// Reads a catalog from the blobs of its packages, one per line.
    fn of(packages: &[String], blobs: &BlobsOfPackage<'_>, limits: &Limits) -> Result<Comparable, CompareError> {
        let mut fbc = Fbc::default();
        for package in packages {
            for line in std::str::from_utf8(&blobs(package)?)?.lines() {
                let wrong = |source| CompareError::Blob { package: package.clone(), source };
                let blob = fbc.stored_blob(line, limits).map_err(wrong)?;
                fbc.push(blob);
            }
        }
        let checked = catalog::check(&fbc, LoadReport::default(), Warnings::Off);
        let catalog = checked.catalog.map_err(|_| CompareError::Incomplete)?;
        Ok(Comparable::new(fbc, catalog)?)
    }
}

/// Returns the blobs of a package, one per line.
pub type BlobsOfPackage<'a> = dyn Fn(&str) -> io::Result<Vec<u8>> + 'a;

/// The catalogs to compare with.
pub struct OtherCatalogs {
    others: Vec<(String, Comparable)>,
    limits: Limits,
}

impl OtherCatalogs {
    /// Prepares named catalogs.
    ///
    /// # Errors
    /// Fails when the text of a blob cannot be read.
    pub fn new(named: impl IntoIterator<Item = (String, Fbc, Catalog)>, limits: &Limits) -> io::Result<OtherCatalogs> {
        let others = named.into_iter().map(|(name, fbc, catalog)| Ok((name, Comparable::new(fbc, catalog)?)));
        Ok(OtherCatalogs { others: others.collect::<io::Result<_>>()?, limits: limits.clone() })
    }

    /// Returns whether there are no catalogs to compare with.
    pub fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// Compares the catalog with these packages with all others.
    pub fn compare(&self, packages: &[String], blobs: &BlobsOfPackage<'_>) -> Vec<ComparedCatalog> {
        if self.is_empty() {
            return Vec::new();
        }
        let new = Comparable::of(packages, blobs, &self.limits).map_err(|error| error.to_string());
        let outcome = |old: &Comparable| {
            let new = new.as_ref().map_err(Clone::clone)?;
            let sides = [old, new].map(|whole| DiffSide { fbc: &whole.fbc, catalog: &whole.catalog });
            let options = changes::CompareOptions { changelog: true, limits: self.limits.clone() };
            let [before, after] = sides;
            let changes = changes::changes(before, after, &options).map_err(|error| error.to_string())?;
            let [before, after] = [old, new].map(|whole| Offered {
                outlines: slice::from_ref(&whole.outline),
                sources: slice::from_ref(&whole.source),
            });
            let upgrades = upgrades::compare(before, after).concat();
            Ok(CatalogDifferences { changes, upgrades })
        };
        self.others.iter().map(|(name, old)| ComparedCatalog { name: name.clone(), outcome: outcome(old) }).collect()
    }
}
