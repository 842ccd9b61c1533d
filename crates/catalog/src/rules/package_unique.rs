//! A package is declared once.

use std::collections::BTreeMap;

use fbc::blob::PACKAGE;
use fbc::{Blob, Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "package-unique",
    about: "a package is declared by one olm.package blob",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    let mut seen = BTreeMap::new();
    for blob in draft.blobs(PACKAGE).filter(|blob| !blob.name.is_empty()) {
        let first: &Blob = seen.entry(&blob.name).or_insert(blob);
        if !std::ptr::eq(first, blob) {
            let problem =
                Problem::new(RULE.name, ProblemStage::Packages, format!("duplicate package \"{}\"", blob.name))
                    .about(&blob.name, "", "")
                    .duplicate_of(first.place(path!["name"]))
                    .help("keep one of the olm.package blobs");
            problems.report(problem, blob.place(path!["name"]));
        }
    }
}
