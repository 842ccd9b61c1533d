//! `bundle validate --previous`: checks that the CRDs of a bundle can replace those of the previous version.

use bundle::review::crd::{self, Rules};
use bundle::{Finding, Severity, Whole};
use fbc::version::Version;
use serde_json::Value;
use source::Images;
use source::catalog_bundles::{self, BundleOrCatalog, CatalogBundles};

use crate::exit::Failure;
use crate::limits;

/// The previous version: a bundle, or a catalog that contains it.
pub(super) struct Previous<'a> {
    reference: &'a str,
    given: BundleOrCatalog<'a>,
}

/// Reads the bundle or the catalog that `reference` names.
pub(super) fn open<'a>(reference: &'a str, images: &'a Images) -> Result<Previous<'a>, Failure> {
    Ok(Previous { reference, given: catalog_bundles::open(reference, images, &limits::from_env()?)? })
}

impl Previous<'_> {
    /// Compares the CRDs of a bundle with those of its previous version.
    pub(super) fn check(&self, new: &Whole) -> Result<Vec<Finding>, Failure> {
        match &self.given {
            BundleOrCatalog::Bundle(old) if old.whole.package != new.package => Err(Failure::message(format!(
                "\"{}\" belongs to package \"{}\", but the bundle belongs to package \"{}\"",
                self.reference, old.whole.package, new.package
            ))),
            BundleOrCatalog::Bundle(old) => Ok(crd::findings(&old.whole, new, Rules::Olm)),
            BundleOrCatalog::Catalog(opened) => {
                let package = opened.package(&new.package)?;
                let Some(before) = before(opened, new)? else {
                    let text = format!("no version in {} comes before it: its CRDs were not compared", self.reference);
                    return Ok(vec![Finding::new("previous-unknown", Severity::Info, text)]);
                };
                let old = opened.read(package, before, true)?;
                Ok(old.map(|old| crd::findings(&old.whole, new, Rules::Olm)).unwrap_or_default())
            }
        }
    }
}

/// Returns the previous version of a bundle in a catalog: the bundle that it replaces, or the next lower version.
fn before<'c>(opened: &'c CatalogBundles<'_>, new: &Whole) -> Result<Option<&'c str>, Failure> {
    let package = opened.package(&new.package)?;
    let Some(csv) = new.csv() else { return Ok(None) };
    let text = |field: &str| csv.value.pointer(field).and_then(Value::as_str).unwrap_or_default();
    let replaces = text("/spec/replaces");
    match Version::parse_tolerant(text("/spec/version")) {
        Ok(version) => Ok(package.replaced_or_lower([replaces].into_iter(), (&version, None), None)),
        Err(_) => Ok(package.bundles().map(|(name, _)| name).find(|name| *name == replaces)),
    }
}
