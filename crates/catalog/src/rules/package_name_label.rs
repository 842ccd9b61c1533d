//! The name of a package is a DNS label.

use fbc::{Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "package-name-label",
    about: "the name of a package is a DNS label: at most 63 of a-z, 0-9 and inner dashes",
    check: Check::Catalog(check),
};

const CHARSET: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name', or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const MAX_LENGTH: usize = 63;

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    for package in draft.packages.values() {
        let reasons = reasons(package.name);
        if !reasons.is_empty() {
            let message = format!("invalid package name \"{}\": [{}]", package.name, reasons.join(", "));
            let problem = Problem::new(RULE.name, ProblemStage::Packages, message)
                .about(package.name, "", "")
                .label("not a DNS label");
            problems.report(problem, package.place(path!["name"]));
        }
    }
}

fn reasons(name: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    if name.len() > MAX_LENGTH {
        reasons.push(format!("must be no more than {MAX_LENGTH} characters"));
    }
    if !is_label(name) {
        let dotted = name.contains('.') && name.split('.').all(is_label);
        reasons.push(if dotted { "must not contain dots".into() } else { CHARSET.into() });
    }
    reasons
}

fn is_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty() && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}
