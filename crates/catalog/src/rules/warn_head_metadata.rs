//! Consoles can show the head of a channel.

use fbc::{Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage, Head};

pub(super) const RULE: Rule = Rule {
    name: "head-metadata",
    about: "the head of a channel has csv metadata or objects, so that consoles can show the package",
    check: Check::Channel(check),
};

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, problems: &mut Vec<Problem>) {
    let Head::One(head) = channel.head() else { return };
    let Some(bundle) = package.bundles.get(head) else { return };
    if bundle.bundle.is_some_and(|facts| facts.csv_metadata == 0 && facts.objects == 0) {
        let message = format!("head \"{head}\" has neither olm.csv.metadata nor objects: consoles cannot show it");
        let problem = Problem::new(RULE.name, ProblemStage::Model, message)
            .warning()
            .about(package.name, channel.name, "")
            .help("render the bundle from its image, which adds them");
        problems.report(problem, bundle.blob.place(path!["name"]));
    }
}
