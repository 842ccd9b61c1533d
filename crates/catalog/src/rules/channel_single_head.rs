//! A channel has exactly one head: an entry that no entry replaces or skips.

use fbc::{Problem, ProblemStage};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage, Head};

pub(super) const RULE: Rule = Rule {
    name: "channel-single-head",
    about: "a channel has exactly one head: an entry that no entry replaces or skips",
    check: Check::Channel(check),
};

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, problems: &mut Vec<Problem>) {
    if channel.entries.is_empty() {
        return;
    }
    let new =
        |message: String| Problem::new(RULE.name, ProblemStage::Model, message).about(package.name, channel.name, "");
    match channel.head() {
        Head::One(_) => {}
        Head::None => {
            let problem = new("no channel head found in graph".into())
                .label("every entry is replaced or skipped by another, or by itself")
                .help("one entry must be the newest: nothing may replace or skip it");
            problems.report(problem, channel.entry_place(0, "name"));
        }
        Head::Several(heads) => {
            let newest = heads.iter().copied().max_by(|a, b| compare_versions(package, a, b)).unwrap_or_default();
            let other = heads.iter().copied().find(|head| *head != newest).unwrap_or_default();
            let problem = new(format!("multiple channel heads found in graph: {}", heads.join(", ")))
                .label("nothing replaces or skips this entry")
                .help(help(package, channel, newest, other));
            problems.report(problem, channel.place_of(other));
        }
    }
}

fn help(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, newest: &str, other: &str) -> String {
    // Where the chain of the newest head ends, an entry probably lost its `replaces`.
    let view = channel.view();
    let mut last = view.entry(newest);
    for _ in 0..channel.entries.len() {
        match last.and_then(|entry| view.entry(&entry.replaces)) {
            Some(next) => last = Some(next),
            None => break,
        }
    }
    match last.filter(|last| last.replaces.is_empty()).map(|last| &*last.name) {
        Some(last) if last == newest || compare_versions(package, last, other).is_gt() => {
            format!("add `replaces: {other}` to {last}, or move one of them to another channel")
        }
        _ => format!("add {other} to the `skips` of {newest}, or move one of them to another channel"),
    }
}

fn compare_versions(package: &DraftPackage<'_>, a: &str, b: &str) -> std::cmp::Ordering {
    let version = |name| package.bundles.get(name).and_then(|bundle| bundle.version());
    match (version(a), version(b)) {
        (Some(a), Some(b)) => a.cmp_precedence(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}
