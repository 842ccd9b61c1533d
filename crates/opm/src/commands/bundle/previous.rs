//! `bundle validate --previous`: checks that the CRDs of a bundle can replace those of the previous version.

use bundle::{Finding, Object, Severity, Whole};
use fbc::version::Version;
use review::crd::{self, Change};
use serde_json::Value;

use crate::catalog_bundles::{self, Given, Opened};
use crate::commands::crd_diff;
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
            Given::Bundle(old) => Ok(compare(&old.whole, new)),
            Given::Catalog(opened) => {
                let package = opened.package(&new.package)?;
                let Some(before) = before(opened, new)? else {
                    let text = format!("no version in {} comes before it: its CRDs were not compared", self.reference);
                    return Ok(vec![Finding::new("previous-unknown", Severity::Info, text)]);
                };
                let old = opened.read(package, before, true)?;
                Ok(old.map(|old| compare(&old.whole, new)).unwrap_or_default())
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

fn compare(old: &Whole, new: &Whole) -> Vec<Finding> {
    const CRD: &str = "CustomResourceDefinition";
    let crds = |whole: &Whole| whole.of_kind(CRD).map(|crd| crd.value.clone()).collect::<Vec<_>>();
    let changes = crd::compare_all(&crds(old), &crds(new));
    let found = changes.iter().map(|change| {
        let finding = crd_diff::olm_finding(change);
        match new.of_kind(CRD).find(|crd| crd.name() == change.crd) {
            Some(crd) => finding.at(&crd.file, crd.document, place(change, crd)),
            None => finding,
        }
    });
    found.collect()
}

/// Returns the JSON pointer of a change: the schema of its version, or the whole spec.
fn place(change: &Change, crd: &Object) -> String {
    // A pair `old -> new` refers to the second version.
    let version = change.version.rsplit(" -> ").next().unwrap_or_default();
    let versions = crd.value.pointer("/spec/versions").and_then(Value::as_array);
    match versions.into_iter().flatten().position(|one| one["name"] == version) {
        Some(at) => format!("/spec/versions/{at}/schema/openAPIV3Schema"),
        None => "/spec".into(),
    }
}
