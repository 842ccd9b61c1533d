//! The image of a bundle is a pull spec.

use fbc::blob::BUNDLE;
use fbc::{BlobContent, Problem, ProblemStage, path, pull_spec};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "bundle-image-pull-spec",
    about: "the image of a bundle is a valid pull spec",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    for blob in draft.blobs(BUNDLE) {
        let BlobContent::Bundle(bundle) = &blob.content else { continue };
        if let Err(error) = pull_spec::check(&bundle.image) {
            let message = format!(
                "package \"{}\" bundle \"{}\" image: invalid image pull spec \"{}\": {error}",
                blob.package, blob.name, bundle.image
            );
            let problem = Problem::new(RULE.name, ProblemStage::Bundles, message).about(&blob.package, "", &blob.name);
            problems.report(problem.label(error.to_string()), blob.place(path!["image"]));
        }
    }
}
