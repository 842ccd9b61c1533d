//! The release of a bundle is well formed.

use fbc::blob::BUNDLE;
use fbc::release::Release;
use fbc::{BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "bundle-release",
    about: "the release of a bundle is a list of pre-release identifiers of at most 20 characters",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    for blob in draft.blobs(BUNDLE) {
        let BlobContent::Bundle(bundle) = &blob.content else { continue };
        let [property] = bundle.package_properties.as_slice() else { continue };
        if let Err(error) = Release::parse(&property.release) {
            let message =
                format!("error parsing bundle \"{}\" release version \"{}\": {error}", blob.name, property.release);
            let problem = Problem::new(RULE.name, ProblemStage::Bundles, message).about(&blob.package, "", &blob.name);
            problems.report(problem, blob.place(path!["properties", property.index as usize, "value", "release"]));
        }
    }
}
