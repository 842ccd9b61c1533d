//! A bundle has a name.

use fbc::{Problem, ProblemStage};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage};

pub(super) const RULE: Rule =
    Rule { name: "bundle-named", about: "a bundle, and so an entry, has a name", check: Check::Entry(check) };

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, index: usize, problems: &mut Vec<Problem>) {
    if channel.entries[index].name.is_empty() && package.bundles.contains_key("") {
        let mut problem =
            Problem::new(RULE.name, ProblemStage::Model, "name must be set").about(package.name, channel.name, "");
        problem.scope.bundle = Some(String::new());
        problems.report(problem, channel.blob.and_then(|blob| blob.place(fbc::path!["entries", index])));
    }
}
