//! Skips name something.

use fbc::{Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage};

pub(super) const RULE: Rule =
    Rule { name: "entry-skips", about: "no name in the skips of an entry is empty", check: Check::Entry(check) };

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, index: usize, problems: &mut Vec<Problem>) {
    let entry = &channel.entries[index];
    for (i, _) in entry.skips.iter().enumerate().filter(|(_, skip)| skip.is_empty()) {
        let problem = Problem::new(RULE.name, ProblemStage::Model, format!("skip[{i}] is empty"))
            .about(package.name, channel.name, &entry.name)
            .help("name the bundle that is skipped, or remove the item");
        problems.report(problem, channel.blob.and_then(|blob| blob.place(path!["entries", index, "skips", i])));
    }
}
