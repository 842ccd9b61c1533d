//! A bundle has one `olm.package` property, and it names the bundle's package.

use fbc::blob::BUNDLE;
use fbc::{BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "bundle-package-property",
    about: "a bundle has exactly one olm.package property, and it names the package of the bundle",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    for blob in draft.blobs(BUNDLE) {
        let BlobContent::Bundle(bundle) = &blob.content else { continue };
        let about = |problem: Problem| problem.about(&blob.package, "", &blob.name);
        match bundle.package_properties.as_slice() {
            [property] if property.package_name != blob.package => {
                let message = format!(
                    "bundle \"{}\": package \"{}\" does not match \"olm.package\" property \"{}\"",
                    blob.name, blob.package, property.package_name
                );
                let place = blob.place(path!["properties", property.index as usize, "value", "packageName"]);
                let problem = about(Problem::new(RULE.name, ProblemStage::Bundles, message));
                problems.report(problem.help("both must name the same package"), place);
            }
            [_] => {}
            several => {
                let message = format!(
                    "package \"{}\" bundle \"{}\" must have exactly 1 \"olm.package\" property, found {}",
                    blob.package,
                    blob.name,
                    several.len()
                );
                let (place, help) = match several.get(1) {
                    Some(second) => (path!["properties", second.index as usize], "remove all but one of them"),
                    None => (path!["name"], "add a property of type olm.package with packageName and version"),
                };
                problems.report(
                    about(Problem::new(RULE.name, ProblemStage::Bundles, message)).help(help),
                    blob.place(place),
                );
            }
        }
    }
}
