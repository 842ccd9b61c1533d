//! Fields have values.

use fbc::json::Raw;
use fbc::schema::BlobSchema;
use fbc::{Blob, BlobContent, Problem, ProblemStage, path, property};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "null-value",
    about: "no known field of a blob, nor of a property, is null",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    let Some(schema) = BlobSchema::named(&blob.schema) else { return };
    let mut nulls = schema.shape.nulls(text, &path![]);
    if matches!(blob.content, BlobContent::Bundle(_)) {
        for (index, (kind, value)) in property::of(text).enumerate() {
            // CSV metadata is copied from the CSV as it is; a value that is null as a whole is another matter.
            if let Some(value) = value.filter(|value| &*kind != property::CSV_METADATA && !value.is_null()) {
                nulls.extend(property::shape(&kind).nulls(value, &path!["properties", index, "value"]));
            }
        }
    }
    for path in nulls {
        let message = format!("{} \"{}\": {path} is null", blob.schema, blob.name);
        let problem = Problem::new(RULE.name, ProblemStage::Load, message)
            .warning()
            .about(&blob.package, "", "")
            .help("give it a value, or remove the field");
        problems.report(problem, blob.place(path));
    }
}
