//! Schemas with a reserved prefix are known.

use fbc::json::Raw;
use fbc::schema::BlobSchema;
use fbc::{Blob, Problem, ProblemStage, path};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule =
    Rule { name: "schema-reserved", about: "schemas that start with `olm.` are known", check: Check::Text(check) };

fn check(blob: &Blob, _: Raw<'_>, problems: &mut Vec<Problem>) {
    if !blob.schema.starts_with("olm.") || BlobSchema::named(&blob.schema).is_some() {
        return;
    }
    let problem = Problem::new(RULE.name, ProblemStage::Load, format!("schema \"{}\" is not known", blob.schema))
        .warning()
        .about(&blob.package, "", "")
        .help("schemas that start with \"olm.\" are reserved; use a domain of your own");
    problems.report(problem, blob.place(path!["schema"]));
}
