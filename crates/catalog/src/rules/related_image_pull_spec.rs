//! Related images are pull specs.

use fbc::json::Raw;
use fbc::{Blob, BlobContent, Problem, ProblemStage, path, pull_spec};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "related-image-pull-spec",
    about: "related images of a bundle are valid pull specs",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    if !matches!(blob.content, BlobContent::Bundle(_)) {
        return;
    }
    for (index, related) in text.get_items("relatedImages").enumerate() {
        let Some(image) = related.get("image").and_then(Raw::as_str) else { continue };
        if let Err(error) = pull_spec::check(&image) {
            let message = format!(
                "package \"{}\" bundle \"{}\" relatedImages[{index}].image: invalid image pull spec \"{image}\": {error}",
                blob.package, blob.name
            );
            let problem = Problem::new(RULE.name, ProblemStage::Bundles, message)
                .about(&blob.package, "", &blob.name)
                .label(error.to_string());
            problems.report(problem, blob.place(path!["relatedImages", index, "image"]));
        }
    }
}
