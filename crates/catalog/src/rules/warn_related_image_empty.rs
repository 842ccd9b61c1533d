//! Related images are not empty.

use fbc::json::Raw;
use fbc::{Blob, BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule =
    Rule { name: "related-image-empty", about: "a related image names an image", check: Check::Text(check) };

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    if !matches!(blob.content, BlobContent::Bundle(_)) {
        return;
    }
    for (index, related) in text.get_items("relatedImages").enumerate() {
        if related.get_str("image").is_empty() {
            let message = format!("bundle \"{}\": relatedImages[{index}] has no image", blob.name);
            let problem =
                Problem::new(RULE.name, ProblemStage::Bundles, message).warning().about(&blob.package, "", &blob.name);
            problems.report(problem, blob.place(path!["relatedImages", index]));
        }
    }
}
