//! Properties of the legacy format have an effect.

use fbc::{Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::{Draft, DraftPackage};

pub(super) const RULE: Rule = Rule {
    name: "first-form-ignored",
    about: "a package with olm.channel blobs has no olm.channel, olm.skips or olm.skipRange properties, which have no \
            effect there",
    check: Check::Package(check),
};

fn check(_: &Draft<'_>, package: &DraftPackage<'_>, problems: &mut Vec<Problem>) {
    if !package.channels.values().any(|channel| channel.blob.is_some()) {
        return;
    }
    for bundle in package.bundles.values() {
        let Some(content) = bundle.bundle else { continue };
        for (index, kind) in content.unused_legacy() {
            let message = format!(
                "bundle \"{}\": property[{index}] of type \"{kind}\" has no effect, since package \"{}\" has \
                 olm.channel blobs",
                bundle.name, package.name
            );
            let problem = Problem::new(RULE.name, ProblemStage::Bundles, message)
                .warning()
                .about(package.name, "", bundle.name)
                .help("move it to the entry of the bundle in an olm.channel blob, or remove it");
            problems.report(problem, bundle.blob.place(path!["properties", index]));
        }
    }
}
