//! A package has a name.

use fbc::blob::PACKAGE;
use fbc::json::JsonPath;
use fbc::{Problem, ProblemStage};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule =
    Rule { name: "package-named", about: "a package has a name", check: Check::Catalog(check) };

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    for blob in draft.blobs(PACKAGE).filter(|blob| blob.name.is_empty()) {
        let problem = Problem::new(RULE.name, ProblemStage::Packages, "config contains package with no name");
        problems.report(problem.help("add a \"name\""), blob.place(JsonPath::default()));
    }
}
