//! Checks bundles together with what belongs to them: previous versions, their repository and its catalogs.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use bundle::{
    BundleCheck, BundleDirectory, CheckError, CheckedBundle, Finding, Findings, OperatorDirectory, ParsedBundle,
    Previous, Severity,
};
use fbc::version::Version;
use rayon::prelude::*;
use serde_json::Value;

use crate::catalog_bundles::{self, BundleOrCatalog, CatalogBundles};
use crate::error::SourceError;
use crate::images::Images;
use crate::load::{Rejected, SourceOptions, load};

/// The bundles to check, and what belongs to them.
pub struct CheckBundles<'a> {
    /// The directories of the bundles, each with its path as the user wrote it, or `None` for an image.
    pub bundles: &'a [(PathBuf, Option<&'a str>)],
    /// What to check of each.
    pub check: BundleCheck<'a>,
    /// The previous version: a bundle, or a catalog that contains it.
    pub previous: Option<&'a str>,
    /// The directory of an operator in a repository, whose versions and catalogs are checked.
    pub operator: Option<&'a Path>,
    /// Further catalogs.
    pub catalogs: &'a [String],
    /// The registries that are allowed for bundles in catalogs; empty if all are.
    pub registries: &'a [String],
    pub package_manifest: Option<&'a Path>,
    /// The lowest severity to fail on.
    pub fail_on: Severity,
}

/// Why bundles cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckBundlesError {
    /// A source cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A bundle, or a file next to it, cannot be checked.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A catalog cannot be used.
    #[error(transparent)]
    Catalog(#[from] Box<Rejected>),
}

/// Returns the findings about bundles and what belongs to them.
///
/// # Errors
/// Fails when something cannot be read.
pub fn check_bundles(request: &CheckBundles<'_>, images: &Images) -> Result<Findings, CheckBundlesError> {
    let limits = request.check.limits;
    let previous = request.previous.map(|it| Ok::<_, SourceError>((it, catalog_bundles::open(it, images, limits)?)));
    let previous = previous.transpose()?;
    let each = request.bundles.par_iter().map(|(path, shown)| -> Result<CheckedBundle, CheckBundlesError> {
        let bundle = BundleDirectory::read(path.clone(), shown.map(str::to_owned), limits);
        let previous = match (&previous, bundle.whole()) {
            (Some((reference, given)), Some(whole)) => Some(before(reference, given, whole)?),
            _ => None,
        };
        Ok(bundle::check(bundle, &request.check, previous)?.without_prefixes())
    });
    let (mut found, mut waived) = (Vec::new(), Vec::new());
    for checked in each.collect::<Vec<_>>() {
        let checked = checked?;
        found.extend(checked.findings);
        waived.extend(checked.waived);
    }
    let (mut catalogs, mut registries) = (request.catalogs.to_vec(), request.registries.to_vec());
    if let Some(operator) = request.operator.map(OperatorDirectory) {
        found.extend(operator.check(limits)?);
        let (of_repository, allowed) = operator.catalogs_and_registries()?;
        catalogs.extend(of_repository.into_iter().map(|path| path.display().to_string()));
        registries.extend(allowed);
    }
    for catalog in &catalogs {
        let fbc = load(std::slice::from_ref(catalog), &SourceOptions::catalogs(limits.clone(), images))?;
        found.extend(bundle::check_catalog(catalog, &fbc, &registries));
    }
    if let Some(manifest) = request.package_manifest {
        found.extend(bundle::check_package_manifest(manifest)?);
    }
    let fail = |finding: &Finding| finding.severity >= request.fail_on;
    Ok(Findings { waived, ..Findings::new(found, fail) })
}

/// Returns the version before a bundle.
fn before<'a>(
    reference: &'a str,
    given: &'a BundleOrCatalog<'_>,
    new: &ParsedBundle,
) -> Result<Previous<'a>, CheckBundlesError> {
    match given {
        BundleOrCatalog::Bundle(old) if old.whole.package != new.package => Err(CheckError::OtherPackage {
            reference: reference.to_owned(),
            package: old.whole.package.clone(),
            wanted: new.package.clone(),
        }
        .into()),
        BundleOrCatalog::Bundle(old) => Ok(Previous::Bundle(Cow::Borrowed(&old.whole))),
        BundleOrCatalog::Catalog(opened) => {
            let package = opened.package(&new.package)?;
            let read = match replaced_or_lower(opened, new)? {
                Some(name) => opened.read(package, name, true)?,
                None => None,
            };
            Ok(read.map_or(Previous::NotIn(reference), |old| Previous::Bundle(Cow::Owned(old.whole))))
        }
    }
}

/// Returns the bundle of a catalog that a bundle replaces, or the one with the next lower version.
fn replaced_or_lower<'c>(opened: &'c CatalogBundles<'_>, new: &ParsedBundle) -> Result<Option<&'c str>, SourceError> {
    let package = opened.package(&new.package)?;
    let Some(csv) = new.csv() else { return Ok(None) };
    let text = |field: &str| csv.value.pointer(field).and_then(Value::as_str).unwrap_or_default();
    let replaces = text("/spec/replaces");
    match Version::parse_tolerant(text("/spec/version")) {
        Ok(version) => Ok(package.replaced_or_lower([replaces].into_iter(), (&version, None), None)),
        Err(_) => Ok(package.bundles().map(|(name, _)| name).find(|name| *name == replaces)),
    }
}
