//! Deprecations belong to a package of the catalog.

use fbc::blob::DEPRECATIONS;
use fbc::json::JsonPath;
use fbc::{Problem, ProblemStage, path};

use super::{Check, Guesses, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "deprecation-package-known",
    about: "deprecations belong to a package that an olm.package blob declares",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    let mut guesses = Guesses::new();
    for (index, blob) in draft.blobs(DEPRECATIONS).enumerate() {
        if blob.package.is_empty() {
            let message = format!("package name must be set for deprecation item {index}");
            let problem = Problem::new(RULE.name, ProblemStage::Deprecations, message).help("add a \"package\"");
            problems.report(problem, blob.place(JsonPath::default()));
        } else if !draft.incomplete && !draft.packages.contains_key(&*blob.package) {
            let message = format!("cannot apply deprecations to an unknown package \"{}\"", blob.package);
            let problem = Problem::new(RULE.name, ProblemStage::Deprecations, message).about(&blob.package, "", "");
            let problem = match guesses.nearest(&blob.package, draft.packages.keys().copied()) {
                Some(near) => problem.meant(near, "", ""),
                None => problem.help("add an olm.package blob, or name the package that the deprecations are about"),
            };
            problems.report(problem, blob.place(path!["package"]));
        }
    }
}
