//! A bundle has an image.

use fbc::json::Raw;
use fbc::{Blob, BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "bundle-image-required",
    about: "a bundle names its image, also where it carries its objects",
    check: Check::Text(check),
};

fn check(blob: &Blob, _: Raw<'_>, problems: &mut Vec<Problem>) {
    let BlobContent::Bundle(bundle) = &blob.content else { return };
    // Without objects, the bundle breaks another rule, which always applies.
    if bundle.image.is_empty() && bundle.objects > 0 {
        let problem = Problem::new(RULE.name, ProblemStage::Bundles, format!("bundle \"{}\" has no image", blob.name))
            .warning()
            .about(&blob.package, "", &blob.name)
            .help("name the image that the bundle is installed from");
        problems.report(problem, blob.place(path!["name"]));
    }
}
