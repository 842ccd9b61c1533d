//! Properties are a list.

use fbc::json::{JsonKind, Raw};
use fbc::schema::BlobSchema;
use fbc::{Blob, Problem, ProblemStage, path};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "properties-list",
    about: "the properties of any blob are a list of objects",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    // Known schemas with properties of another type fail to load.
    let (None, Some(properties)) = (BlobSchema::named(&blob.schema), text.get("properties")) else { return };
    let mut report = |message: String, path| {
        let problem = Problem::new(RULE.name, ProblemStage::Load, message)
            .warning()
            .about(&blob.package, "", "")
            .help("write a list of objects with a \"type\" and a \"value\"");
        problems.report(problem, blob.place(path));
    };
    if properties.kind() != JsonKind::Array {
        let message = format!("{} \"{}\": properties are {}, not a list", blob.schema, blob.name, properties.kind());
        return report(message, path!["properties"]);
    }
    for (index, item) in properties.items().enumerate().filter(|(_, item)| item.kind() != JsonKind::Object) {
        let message = format!("{} \"{}\": property[{index}] is {}, not an object", blob.schema, blob.name, item.kind());
        report(message, path!["properties", index]);
    }
}
