//! A bundle replaces an older one.

use std::cmp::Ordering;

use fbc::{Problem, ProblemStage};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage};

pub(super) const RULE: Rule =
    Rule { name: "replaces-newer", about: "a bundle replaces one of a lower version", check: Check::Entry(check) };

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, index: usize, problems: &mut Vec<Problem>) {
    let entry = &channel.entries[index];
    let version = |name: &str| package.bundles.get(name).and_then(|bundle| bundle.version());
    let (Some(new), Some(old)) = (version(&entry.name), version(&entry.replaces)) else { return };
    if new.cmp_precedence(&old) == Ordering::Less {
        let message = format!("\"{}\" ({new}) replaces \"{}\", which is newer ({old})", entry.name, entry.replaces);
        let problem = Problem::new(RULE.name, ProblemStage::Model, message).warning().about(
            package.name,
            channel.name,
            &entry.name,
        );
        problems.report(problem, channel.entry_place(index, "replaces"));
    }
}
