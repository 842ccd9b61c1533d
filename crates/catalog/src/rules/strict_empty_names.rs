//! Names are not empty.

use fbc::json::{JsonPath, Raw};
use fbc::{Blob, BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "empty-names",
    about: "`replaces` and `skipRange` of entries, and `package` of any blob, are left out or not empty",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    let is_empty = |value: Raw<'_>, name: &str| value.get(name).and_then(Raw::as_str).is_some_and(|it| it.is_empty());
    let mut report = |what: &str, path: JsonPath| {
        let message = format!("{} \"{}\": {what} is empty", blob.schema, blob.name);
        let problem = Problem::new(RULE.name, ProblemStage::Load, message)
            .warning()
            .about(&blob.package, "", "")
            .help("give it a value, or remove the field");
        problems.report(problem, blob.place(path));
    };
    // Known schemas without a package break other rules.
    if matches!(blob.content, BlobContent::Other) && is_empty(text, "package") {
        report("package", path!["package"]);
    }
    if !matches!(blob.content, BlobContent::Channel { .. }) {
        return;
    }
    for (index, entry) in text.get_items("entries").enumerate() {
        for field in ["replaces", "skipRange"].into_iter().filter(|field| is_empty(entry, field)) {
            report(&format!("entries[{index}].{field}"), path!["entries", index, field]);
        }
    }
}
