//! A bundle with a release is named after it, and its version has no build metadata.

use fbc::{Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage};

pub(super) const RULE: Rule = Rule {
    name: "bundle-release-name",
    about: "a bundle with a release is named PACKAGE-vVERSION-RELEASE, and its version has no build metadata",
    check: Check::Entry(check),
};

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, index: usize, problems: &mut Vec<Problem>) {
    let Some(bundle) = package.bundles.get(&*channel.entries[index].name) else { return };
    let (Some(version), Some(release)) = (bundle.version(), bundle.release()) else { return };
    let normalized = format!("{}-v{version}-{release}", package.name);
    let about = |problem: Problem| problem.about(package.name, channel.name, bundle.name);
    if bundle.name != normalized {
        let message = format!("name \"{}\" does not match normalized name \"{normalized}\"", bundle.name);
        let problem = about(Problem::new(RULE.name, ProblemStage::Model, message));
        problems.report(problem.help(format!("rename the bundle to {normalized}")), bundle.blob.place(path!["name"]));
    }
    if !version.build().is_empty() {
        let message = "cannot use build metadata in version with a release version";
        let index = bundle.package_property().map_or(0, |property| property.index as usize);
        let problem = about(Problem::new(RULE.name, ProblemStage::Model, message)).help("use one of the two");
        problems.report(problem, bundle.blob.place(path!["properties", index, "value", "version"]));
    }
}
