//! A required package has a name and a valid range.

use fbc::json::Raw;
use fbc::range::VersionRange;
use fbc::{Blob, Problem, ProblemStage, path, property};

use super::{Check, Report, Rule};

pub(super) const RULE: Rule = Rule {
    name: "required-package",
    about: "olm.package.required names a package and a valid version range",
    check: Check::Text(check),
};

fn check(blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>) {
    for (index, value) in super::properties_of_type(blob, text, property::PACKAGE_REQUIRED) {
        let field = |name| value.get_str(name);
        let (name, range) = (field("packageName"), field("versionRange"));
        let mut warn = |field: &'static str, message: String| {
            let problem =
                Problem::new(RULE.name, ProblemStage::Bundles, message).warning().about(&blob.package, "", &blob.name);
            problems.report(problem, blob.place(path!["properties", index, "value", field]));
        };
        if name.is_empty() {
            warn("packageName", format!("bundle \"{}\" requires a package without a name", blob.name));
        }
        if let Err(error) = VersionRange::parse(&range) {
            warn(
                "versionRange",
                format!("bundle \"{}\" requires \"{name}\" in invalid range \"{range}\": {error}", blob.name),
            );
        }
    }
}
