//! Catalogs to compare with on pages.

use std::slice;

use catalog::{Catalog, Warnings};
use edit::Outline;
use edit::diff::{DiffSide, changes};
use edit::upgrades::{self, Offered};
use fbc::{Fbc, Limits, LoadReport};
use resolve::input::CatalogInput;
use serve::pages::PackageSummaries;
use site::pages::changes::{CatalogDifferences, ComparedCatalog};
use source::Images;

use crate::choice::InvalidValue;
use crate::commands::diff;
use crate::exit::Failure;
use crate::printer::Printer;

/// A catalog prepared for comparison.
struct Comparable {
    fbc: Fbc,
    catalog: Catalog,
    outline: Outline,
    source: CatalogInput,
}

impl Comparable {
    fn new(fbc: Fbc, catalog: Catalog) -> std::io::Result<Comparable> {
        let outline = Outline::new(&fbc);
        let source = upgrades::source_of(&fbc, &outline)?;
        Ok(Comparable { fbc, catalog, outline, source })
    }

    /// Reads the served catalog from its blobs.
    fn of(summaries: &PackageSummaries, limits: &Limits) -> Result<Comparable, Box<dyn std::error::Error>> {
        let mut fbc = Fbc::default();
        for package in summaries.packages() {
            let blobs = summaries.blobs(&package)?;
            let text = std::str::from_utf8(&blobs)?;
            for line in text.lines() {
                let blob = fbc.stored_blob(line, limits).map_err(|error| format!("package {package}: {error}"))?;
                fbc.push(blob);
            }
        }
        let checked = catalog::check(&fbc, LoadReport::default(), Warnings::Off);
        let catalog = checked.catalog.map_err(|_| "its blobs are not complete yet")?;
        Ok(Comparable::new(fbc, catalog)?)
    }
}

/// The catalogs to compare with.
pub(crate) struct Others {
    others: Vec<(String, Comparable)>,
    limits: Limits,
}

impl Others {
    /// Loads catalogs by name and reference.
    ///
    /// # Errors
    /// Fails if a catalog is invalid, after reporting its problems.
    pub(crate) fn load(
        named: &[(String, String)],
        images: &Images,
        limits: &Limits,
        printer: &Printer,
    ) -> Result<Others, Failure> {
        let mut others = Vec::new();
        for (name, reference) in named {
            let (fbc, catalog) = diff::load(reference, images, limits, printer)?;
            others.push((name.clone(), Comparable::new(fbc, catalog)?));
        }
        Ok(Others { others, limits: limits.clone() })
    }

    /// Returns whether there are no catalogs to compare with.
    pub(crate) fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// Compares a catalog with all others.
    pub(crate) fn compare(&self, summaries: &PackageSummaries) -> Vec<ComparedCatalog> {
        if self.is_empty() {
            return Vec::new();
        }
        let new = Comparable::of(summaries, &self.limits).map_err(|error| error.to_string());
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

/// Parses `NAME=SOURCE`.
pub(crate) fn named(text: &str) -> Result<(String, String), InvalidValue> {
    match text.split_once('=') {
        Some((name, source)) if !name.is_empty() && !source.is_empty() => Ok((name.to_owned(), source.to_owned())),
        _ => Err("expected NAME=SOURCE".into()),
    }
}
