//! A skip range matches what its author expects.

use fbc::range::VersionRange;
use fbc::{Problem, ProblemStage};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage};

pub(super) const RULE: Rule = Rule {
    name: "skip-range-surprise",
    about: "the skipRange of an entry can match, and no part of it is silently dropped",
    check: Check::Entry(check),
};

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, index: usize, problems: &mut Vec<Problem>) {
    let entry = &channel.entries[index];
    let Ok(range) = VersionRange::parse(&entry.skip_range) else { return };
    let mut warn = |message: String| {
        let problem = Problem::new(RULE.name, ProblemStage::Model, message).warning().about(
            package.name,
            channel.name,
            &entry.name,
        );
        problems.report(problem, channel.entry_place(index, "skipRange"));
    };
    for surprise in range.surprises() {
        warn(format!("skipRange \"{}\": {surprise}", entry.skip_range));
    }
    if range.never_matches() {
        warn(format!("skipRange \"{}\" matches no version", entry.skip_range));
    }
}
