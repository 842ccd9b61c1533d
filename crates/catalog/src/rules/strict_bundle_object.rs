//! Objects of bundles have content.

use fbc::json::Raw;
use fbc::{Blob, Problem, ProblemStage, path, property};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "bundle-object-empty",
    about: "an olm.bundle.object has data, or a reference to a file",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    for (index, value) in super::properties_of_type(blob, text, property::BUNDLE_OBJECT) {
        let filled = |name| value.get(name).and_then(Raw::as_str).is_some_and(|text| !text.is_empty());
        if !filled("data") && !filled("ref") {
            let message = format!("bundle \"{}\": property[{index}] of type olm.bundle.object is empty", blob.name);
            let problem = Problem::new(RULE.name, ProblemStage::Bundles, message)
                .warning()
                .about(&blob.package, "", &blob.name)
                .help("give it \"data\" or \"ref\", or remove it");
            problems.report(problem, blob.place(path!["properties", index]));
        }
    }
}
