//! A bundle has an image, or carries its objects.

use fbc::{Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage};

pub(super) const RULE: Rule = Rule {
    name: "bundle-image-set",
    about: "a bundle has an image, or carries its objects as olm.bundle.object properties",
    check: Check::Entry(check),
};

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, index: usize, problems: &mut Vec<Problem>) {
    let Some(bundle) = package.bundles.get(&*channel.entries[index].name) else { return };
    if bundle.bundle.is_some_and(|facts| facts.image.is_empty() && facts.objects == 0) {
        let problem = Problem::new(RULE.name, ProblemStage::Model, "bundle image must be set")
            .about(package.name, channel.name, bundle.name)
            .help("add `image` with the pull spec of the bundle image");
        problems.report(problem, bundle.blob.place(path!["name"]));
    }
}
