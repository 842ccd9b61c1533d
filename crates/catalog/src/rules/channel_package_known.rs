//! A channel belongs to a package of the catalog.

use fbc::blob::CHANNEL;
use fbc::{Problem, ProblemStage, path};

use super::{Check, Guesses, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "channel-package-known",
    about: "a channel belongs to a package that an olm.package blob declares",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    if draft.incomplete {
        return;
    }
    let mut guesses = Guesses::new();
    for blob in draft.blobs(CHANNEL).filter(|blob| !draft.packages.contains_key(&*blob.package)) {
        let message = format!("unknown package \"{}\" for channel \"{}\"", blob.package, blob.name);
        let mut problem = Problem::new(RULE.name, ProblemStage::Channels, message).about(&blob.package, &blob.name, "");
        problem = guesses.package(
            problem,
            draft,
            &blob.package,
            "add an olm.package blob, or name the package the channel belongs to",
        );
        let field = if blob.package.is_empty() { "name" } else { "package" };
        problems.report(problem, blob.place(path![field]));
    }
}
