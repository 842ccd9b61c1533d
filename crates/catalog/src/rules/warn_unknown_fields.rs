//! Fields are known.

use fbc::json::Raw;
use fbc::schema::BlobSchema;
use fbc::{Blob, Problem, Stage, path};

use super::{Check, Guesses, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "unknown-fields",
    about: "blobs of olm schemas have known fields only (others are lost when the catalog is rendered)",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    let Some(schema) = BlobSchema::named(&blob.schema) else { return };
    for (key, _) in text.members() {
        if schema.fields().any(|field| field.eq_ignore_ascii_case(&key)) {
            continue;
        }
        let message =
            format!("{} \"{}\" has unknown field \"{key}\", which is lost when it is rendered", blob.schema, blob.name);
        let mut problem = Problem::new(RULE.name, Stage::Load, message).warning().about(&blob.package, "", "");
        problem.help = Guesses::new().nearest(&key, schema.fields()).map(|near| format!("did you mean \"{near}\"?"));
        problems.report(problem, blob.place(path![key.into_owned()]));
    }
}
