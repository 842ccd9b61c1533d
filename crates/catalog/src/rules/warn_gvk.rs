//! APIs have valid Kubernetes names.

use fbc::json::Raw;
use fbc::{Blob, Problem, ProblemStage, path, property};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "gvk-fields",
    about: "olm.gvk and olm.gvk.required have a group, version and kind that Kubernetes accepts",
    check: Check::Text(check),
};

type Test = fn(&str) -> bool;
const FIELDS: [(&str, Test); 3] = [("group", is_subdomain), ("version", is_label), ("kind", is_camel_case)];

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    for kind in [property::GVK, property::GVK_REQUIRED] {
        for (index, value) in super::properties_of_type(blob, text, kind) {
            for (field, test) in FIELDS {
                let found = value.get_str(field);
                if !test(&found) {
                    let message =
                        format!("bundle \"{}\": {field} \"{found}\" of {kind} is not a valid {field}", blob.name);
                    let problem = Problem::new(RULE.name, ProblemStage::Bundles, message).warning().about(
                        &blob.package,
                        "",
                        &blob.name,
                    );
                    problems.report(problem, blob.place(path!["properties", index, "value", field]));
                }
            }
        }
    }
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_camel_case(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}
