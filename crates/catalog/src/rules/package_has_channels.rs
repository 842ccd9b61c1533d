//! A package has channels.

use fbc::{Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::{Draft, DraftPackage};

pub(super) const RULE: Rule =
    Rule { name: "package-has-channels", about: "a package has at least one channel", check: Check::Package(check) };

fn check(draft: &Draft<'_>, package: &DraftPackage<'_>, problems: &mut Vec<Problem>) {
    if package.channels.is_empty() && !draft.incomplete {
        let problem = Problem::new(RULE.name, ProblemStage::Model, "package must contain at least one channel");
        problems
            .report(problem.about(package.name, "", "").help("add an olm.channel blob"), package.place(path!["name"]));
    }
}
