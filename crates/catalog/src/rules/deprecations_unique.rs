//! A package has one deprecations blob.

use std::collections::BTreeSet;

use fbc::blob::DEPRECATIONS;
use fbc::{Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "deprecations-unique",
    about: "a package has at most one olm.deprecations blob",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for blob in draft.blobs(DEPRECATIONS).filter(|blob| !blob.package.is_empty()) {
        if !seen.insert(&blob.package) {
            let message = format!("expected a maximum of one deprecation per package: \"{}\"", blob.package);
            let problem = Problem::new(RULE.name, ProblemStage::Deprecations, message)
                .about(&blob.package, "", "")
                .help("put all entries into one olm.deprecations blob");
            problems.report(problem, blob.place(path!["package"]));
        }
    }
}
