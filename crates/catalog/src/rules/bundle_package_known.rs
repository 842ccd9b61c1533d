//! A bundle belongs to a package of the catalog.

use fbc::blob::BUNDLE;
use fbc::{Problem, ProblemStage, path};

use super::{Check, Guesses, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "bundle-package-known",
    about: "a bundle belongs to a package that an olm.package blob declares",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    let mut guesses = Guesses::new();
    for blob in draft.blobs(BUNDLE) {
        if blob.package.is_empty() {
            let message = format!("package name must be set for bundle \"{}\"", blob.name);
            let problem = Problem::new(RULE.name, ProblemStage::Bundles, message).about("", "", &blob.name);
            problems.report(problem.help("add a \"package\""), blob.place(path!["name"]));
        } else if !draft.incomplete && !draft.packages.contains_key(&*blob.package) {
            let message = format!("unknown package \"{}\" for bundle \"{}\"", blob.package, blob.name);
            let mut problem =
                Problem::new(RULE.name, ProblemStage::Bundles, message).about(&blob.package, "", &blob.name);
            problem = guesses.package(
                problem,
                draft,
                &blob.package,
                "add an olm.package blob, or name the package the bundle belongs to",
            );
            problems.report(problem, blob.place(path!["package"]));
        }
    }
}
