//! An icon is an image of its media type.

use fbc::json::{JsonKind, Raw};
use fbc::{Blob, BlobContent, Problem, ProblemStage, base64, path};

use super::{Check, Report, Rule};
use crate::media_type;

pub(super) const RULE: Rule = Rule {
    name: "icon-is-image",
    about: "the icon of a package is an image of the media type it says",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    let (BlobContent::Package { .. }, Some(icon)) = (&blob.content, text.get("icon")) else { return };
    if icon.kind() != JsonKind::Object {
        return;
    }
    let field = |name| icon.get_str(name);
    let (data, declared) = (field("base64data"), field("mediatype"));
    let detected = base64::decode(&data).ok().and_then(|bytes| media_type::detect(&bytes));
    let (message, at) = match detected {
        _ if data.is_empty() => ("icon data is empty".to_owned(), "base64data"),
        None => ("icon is not an image".to_owned(), "base64data"),
        Some(found) if !found.starts_with("image/") => (format!("icon is not an image but {found}"), "base64data"),
        Some(_) if declared.is_empty() => ("icon has no media type".to_owned(), "mediatype"),
        Some(found) if found != declared => (format!("icon is {found}, not {declared}"), "mediatype"),
        Some(_) => return,
    };
    let message = format!("package \"{}\": {message}", blob.name);
    let problem = Problem::new(RULE.name, ProblemStage::Packages, message).warning().about(&blob.name, "", "");
    problems.report(problem, blob.place(path!["icon", at]));
}
