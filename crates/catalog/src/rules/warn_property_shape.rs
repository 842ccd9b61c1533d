//! Properties have a type and a value.

use fbc::json::{JsonKind, Raw};
use fbc::{Blob, BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "property-shape",
    about: "properties of any blob have a type that is not empty and a value that is not null",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    for (index, property) in text.get_items("properties").enumerate() {
        let fault = match (property.get("type").and_then(Raw::as_str), property.get("value")) {
            (None, _) => "has no type",
            (Some(kind), _) if kind.is_empty() => "has an empty type",
            (_, Some(value)) if value.kind() == JsonKind::Null => "has the value null",
            // Without a value, the property of a bundle breaks another rule.
            (_, None) if !matches!(blob.content, BlobContent::Bundle(_)) => "has no value",
            _ => continue,
        };
        let message = format!("{} \"{}\": property[{index}] {fault}", blob.schema, blob.name);
        let problem =
            Problem::new(RULE.name, ProblemStage::Bundles, message).warning().about(&blob.package, "", &blob.name);
        problems.report(problem, blob.place(path!["properties", index]));
    }
}
