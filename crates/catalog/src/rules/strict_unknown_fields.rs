//! Fields are known.

use fbc::json::Raw;
use fbc::schema::BlobSchema;
use fbc::{Blob, Problem, ProblemStage, unknown_fields};

use super::{Check, Guesses, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "unknown-fields",
    about: "blobs of olm schemas, and the entries, properties and related images in them, have known fields only (others \
            are lost when the catalog is rendered)",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    if !blob.may_have_unknown_fields() {
        return;
    }
    let Some(schema) = BlobSchema::named(&blob.schema) else { return };
    let mut guesses = Guesses::new();
    unknown_fields::fields(&blob.schema, text, &mut |field| {
        let Some(fbc::json::PathStep::Key(key)) = field.path.0.last() else { return };
        // Schemas know some fields of the envelope that they do not print.
        if field.path.0.len() == 1 && schema.envelope.iter().any(|name| name.eq_ignore_ascii_case(key)) {
            return;
        }
        let message = format!(
            "{} \"{}\" has unknown field \"{}\", which is lost when it is rendered",
            blob.schema, blob.name, field.path
        );
        let mut problem = Problem::new(RULE.name, ProblemStage::Load, message).warning().about(&blob.package, "", "");
        let near = guesses.nearest(key, field.known.iter().copied());
        problem.help = near.map(|near| format!("did you mean \"{near}\"?"));
        problems.report(problem, blob.place(field.path));
    });
}
