//! An icon has data and a type.

use fbc::json::{JsonKind, Raw};
use fbc::{Blob, BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "icon-fields",
    about: "the icon of a package has base64data and a mediatype",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    let (BlobContent::Package { .. }, Some(icon)) = (&blob.content, text.get("icon")) else { return };
    if icon.kind() != JsonKind::Object {
        return;
    }
    for field in ["base64data", "mediatype"].into_iter().filter(|field| icon.get(field).is_none()) {
        let message = format!("package \"{}\": icon has no {field}", blob.name);
        let problem = Problem::new(RULE.name, ProblemStage::Packages, message).warning().about(&blob.name, "", "");
        problems.report(problem, blob.place(path!["icon"]));
    }
}
