//! The version of a bundle is a semantic version.

use fbc::blob::BUNDLE;
use fbc::version::Version;
use fbc::{BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "bundle-version",
    about: "the version of a bundle is a semantic version of three numbers",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    for blob in draft.blobs(BUNDLE) {
        let BlobContent::Bundle(bundle) = &blob.content else { continue };
        let [property] = bundle.package_properties.as_slice() else { continue };
        let Err(error) = Version::parse_strict(&property.version) else { continue };
        let message = format!("error parsing bundle \"{}\" version \"{}\": {error}", blob.name, property.version);
        let mut problem = Problem::new(RULE.name, ProblemStage::Bundles, message)
            .about(&blob.package, "", &blob.name)
            .label("not a version of the form 1.2.3");
        problem.help =
            Version::parse_tolerant(&property.version).ok().map(|meant| format!("did you mean \"{meant}\"?"));
        problems.report(problem, blob.place(path!["properties", property.index as usize, "value", "version"]));
    }
}
