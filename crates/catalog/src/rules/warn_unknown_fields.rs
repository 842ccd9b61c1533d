//! Fields and schemas are known.

use fbc::blob::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE};
use fbc::json::Raw;
use fbc::{Blob, Problem, Stage, path};

use super::{Check, Guesses, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "unknown-fields",
    about: "blobs of olm schemas have known fields only (others are lost when the catalog is rendered), and olm.* schemas are known",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    let known: &[&str] = match &*blob.schema {
        PACKAGE => &["schema", "name", "defaultChannel", "icon", "description", "properties"],
        CHANNEL => &["schema", "name", "package", "entries", "properties"],
        BUNDLE => &["schema", "name", "package", "image", "properties", "relatedImages"],
        DEPRECATIONS => &["schema", "name", "package", "entries"],
        schema => {
            if schema.starts_with("olm.") {
                let problem = Problem::new(RULE.name, Stage::Load, format!("schema \"{schema}\" is not known"))
                    .warning()
                    .about(&blob.package, "", "")
                    .help("schemas that start with \"olm.\" are reserved; use a domain of your own");
                problems.report(problem, blob.place(path!["schema"]));
            }
            return;
        }
    };
    for (key, _) in text.members() {
        if known.iter().any(|field| field.eq_ignore_ascii_case(&key)) {
            continue;
        }
        let message =
            format!("{} \"{}\" has unknown field \"{key}\", which is lost when it is rendered", blob.schema, blob.name);
        let mut problem = Problem::new(RULE.name, Stage::Load, message).warning().about(&blob.package, "", "");
        problem.help =
            Guesses::new().nearest(&key, known.iter().copied()).map(|near| format!("did you mean \"{near}\"?"));
        problems.report(problem, blob.place(path![key.into_owned()]));
    }
}
