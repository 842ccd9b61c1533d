//! Channels, skips and skip ranges that bundles declare as properties, in the legacy format.

use std::collections::BTreeSet;

use fbc::json::{JsonKind, JsonPath, Raw};
use fbc::range::VersionRange;
use fbc::{Blob, BlobContent, Problem, ProblemStage, path, property};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "first-form-properties",
    about: "olm.channel properties name each channel once and replace something or nothing, olm.skips name a bundle, and \
            one olm.skipRange is a version range, in every package that has such properties",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    if !matches!(blob.content, BlobContent::Bundle(_)) {
        return;
    }
    let mut report = |index: usize, field: Option<&'static str>, message: String| {
        let message = format!("bundle \"{}\": property[{index}] {message}", blob.name);
        let problem =
            Problem::new(RULE.name, ProblemStage::Bundles, message).warning().about(&blob.package, "", &blob.name);
        let value: JsonPath = path!["properties", index, "value"];
        problems.report(problem, blob.place(field.map_or(value.clone(), |field| value.then(field))));
    };
    let (mut channels, mut range) = (BTreeSet::new(), None);
    for (index, (kind, value)) in property::of(text).enumerate() {
        let Some(value) = value.filter(|value| !value.is_null()) else { continue };
        match &*kind {
            // Without a name it is a property of databases, which has another shape.
            property::CHANNEL if value.kind() == JsonKind::Object => {
                let Some(name) = value.get("name").and_then(Raw::as_str) else { continue };
                if name.is_empty() {
                    report(index, Some("name"), "has no channel name".into());
                } else if !channels.insert(name.clone()) {
                    report(index, Some("name"), format!("names channel \"{name}\" again"));
                }
                if value.get("replaces").and_then(Raw::as_str).is_some_and(|replaces| replaces.is_empty()) {
                    report(index, Some("replaces"), "replaces an empty name".into());
                }
            }
            property::SKIPS if value.as_str().is_none_or(|name| name.is_empty()) => {
                report(index, None, "of type olm.skips has no bundle name".into());
            }
            property::SKIP_RANGE => {
                match value.as_str().as_deref().map(VersionRange::parse) {
                    None => report(index, None, "of type olm.skipRange is not a text".into()),
                    Some(Err(error)) => report(index, None, format!("of type olm.skipRange is not a range: {error}")),
                    Some(Ok(_)) => {}
                }
                if let Some(first) = range.replace(index) {
                    report(index, None, format!("is a second olm.skipRange, after property[{first}]"));
                }
            }
            _ => {}
        }
    }
}
