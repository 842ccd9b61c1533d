//! A skip range is a range.

use fbc::range::VersionRange;
use fbc::{Problem, ProblemStage};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage};

pub(super) const RULE: Rule = Rule {
    name: "entry-skip-range",
    about: "the skipRange of an entry is a version range",
    check: Check::Entry(check),
};

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, index: usize, problems: &mut Vec<Problem>) {
    let entry = &channel.entries[index];
    if entry.skip_range.is_empty() {
        return;
    }
    if let Err(error) = VersionRange::parse(&entry.skip_range) {
        let problem = Problem::new(
            RULE.name,
            ProblemStage::Model,
            format!("invalid skipRange \"{}\": {error}", entry.skip_range),
        )
        .about(package.name, channel.name, &entry.name)
        .help("write it like \">=1.0.0 <1.2.0\"; \" || \" separates alternatives");
        problems.report(problem, channel.entry_place(index, "skipRange"));
    }
}
