//! Properties of known types have values of the right types.

use fbc::json::Raw;
use fbc::{Blob, BlobContent, Problem, ProblemStage, path, property};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "property-values",
    about: "properties of bundles have values, of the right types where the type of property is known",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    if !matches!(blob.content, BlobContent::Bundle(_)) {
        return;
    }
    for (index, (kind, value)) in property::of(text).enumerate() {
        // Objects are checked while loading, channels of the legacy format when they are converted.
        let skip = match &*kind {
            property::BUNDLE_OBJECT => true,
            property::CHANNEL => value.is_some_and(|value| value.get("name").is_some()),
            _ => false,
        };
        let (fault, path) = match value {
            None => ("unexpected end of JSON input: value is missing".to_owned(), path!["properties", index]),
            Some(_) if skip => continue,
            Some(value) => match property::shape(&kind).check_at(value, || path!["properties", index, "value"]) {
                Ok(()) => continue,
                Err(mismatch) => (mismatch.to_string(), mismatch.path),
            },
        };
        let message = format!(
            "parse properties for bundle \"{}\": parse property[{index}] of type \"{kind}\": {fault}",
            blob.name
        );
        let problem = Problem::new(RULE.name, ProblemStage::Bundles, message).about(&blob.package, "", &blob.name);
        problems.report(problem, blob.place(path));
    }
}
