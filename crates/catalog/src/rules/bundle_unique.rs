//! A bundle is declared once in its package.

use std::collections::BTreeMap;

use fbc::blob::BUNDLE;
use fbc::{Blob, BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "bundle-unique",
    about: "a bundle of a package is declared by one olm.bundle blob",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    let mut seen = BTreeMap::new();
    for blob in draft.blobs(BUNDLE).filter(|blob| !blob.package.is_empty()) {
        let first: &Blob = seen.entry((&blob.package, &blob.name)).or_insert(blob);
        if !std::ptr::eq(first, blob) {
            let message = format!("package \"{}\" has duplicate bundle \"{}\"", blob.package, blob.name);
            let problem = Problem::new(RULE.name, ProblemStage::Bundles, message)
                .about(&blob.package, "", &blob.name)
                .duplicate_of(first.place(path!["name"]))
                .help(help(first, blob));
            problems.report(problem, blob.place(path!["name"]));
        }
    }
}

/// Returns how to tell two bundles of one name apart.
fn help(first: &Blob, second: &Blob) -> String {
    let version = |blob: &Blob| match &blob.content {
        BlobContent::Bundle(bundle) => bundle.package_properties.first().map(|property| property.version.to_string()),
        _ => None,
    };
    match version(second).filter(|second| version(first).is_some_and(|first| first != *second)) {
        Some(version) => format!("its version is {version}: give it the name of that version, or remove it"),
        None => "keep one of the olm.bundle blobs".to_owned(),
    }
}
