//! `bundle validate --previous`: checks that the CRDs of a bundle can replace those of the previous version.

use bundle::{Finding, Severity, Whole};
use fbc::version::Version;
use review::crd::{self, Rules};
use serde_json::Value;

use crate::catalog_bundles::{self, Given, Opened};
use crate::exit::Failure;
use crate::images::Images;
use crate::printer::Printer;

/// The previous version: a bundle, or a catalog that contains it.
pub(super) struct Previous<'a> {
    reference: &'a str,
    given: Given<'a>,
}

/// Reads the bundle or the catalog that `reference` names.
pub(super) fn open<'a>(reference: &'a str, images: &'a Images, printer: &Printer) -> Result<Previous<'a>, Failure> {
    Ok(Previous { reference, given: catalog_bundles::open(reference, images, printer)? })
}

impl Previous<'_> {
    /// Compares the CRDs of a bundle with those of its previous version.
    pub(super) fn check(&self, new: &Whole) -> Result<Vec<Finding>, Failure> {
        match &self.given {
            Given::Bundle(old) if old.whole.package != new.package => Err(Failure::message(format!(
                "\"{}\" belongs to package \"{}\", but the bundle belongs to package \"{}\"",
                self.reference, old.whole.package, new.package
            ))),
            Given::Bundle(old) => Ok(crd::findings(&old.whole, new, Rules::Olm)),
            Given::Catalog(opened) => {
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
fn before<'c>(opened: &'c Opened<'_>, new: &Whole) -> Result<Option<&'c str>, Failure> {
    let package = opened.package(&new.package)?;
    let Some(csv) = new.csv() else { return Ok(None) };
    let text = |field: &str| csv.value.pointer(field).and_then(Value::as_str).unwrap_or_default();
    let replaces = text("/spec/replaces");
    if let Some((name, _)) = package.bundles().find(|(name, _)| *name == replaces) {
        return Ok(Some(name));
    }
    let Ok(version) = Version::parse_tolerant(text("/spec/version")) else { return Ok(None) };
    let lower = package.bundles().filter(|(_, facts)| facts.version.cmp_precedence(&version).is_lt());
    Ok(lower.max_by(|a, b| a.1.version.cmp_precedence(&b.1.version)).map(|(name, _)| name))
}
