//! The replaces chain of a channel ends, and reaches every entry that is not skipped.

use std::collections::{HashMap, HashSet};

use fbc::blob::Entry;
use fbc::{Problem, Stage};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage, Head};

pub(super) const RULE: Rule = Rule {
    name: "channel-chain",
    about: "the replaces chain from the head of a channel has no cycle, and every entry is on it or skipped",
    check: Check::Channel(check),
};

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, problems: &mut Vec<Problem>) {
    let Head::One(head) = channel.head() else { return };
    let entries: HashMap<&str, &Entry> = channel.entries.iter().map(|entry| (&*entry.name, entry)).collect();
    let skipped = channel.skipped();
    let mut chain = vec![head];
    let mut on_chain = HashSet::from([head]);
    let mut current = entries.get(head);
    let new = |message: String| Problem::new(RULE.name, Stage::Model, message).about(package.name, channel.name, "");
    while let Some(entry) = current {
        let next = &*entry.replaces;
        if skipped.contains(next) {
            break;
        }
        if !on_chain.insert(next) {
            let start = chain.iter().position(|name| *name == next).unwrap_or_default();
            let cycle = format!("{} -> {next}", chain[start..].join(" -> "));
            let problem = new(format!("detected cycle in replaces chain of upgrade graph: {cycle}"))
                .label(format!("replaces \"{next}\", which is newer"))
                .help("an entry replaces an older one; break the cycle at its oldest entry");
            problems.report(problem, channel.place_of(&entry.name));
            return;
        }
        chain.push(next);
        current = entries.get(next);
    }
    let mut stranded: Vec<&str> = channel
        .entries
        .iter()
        .map(|entry| &*entry.name)
        .filter(|name| !on_chain.contains(name) && !skipped.contains(name))
        .collect();
    stranded.sort_unstable();
    if let Some(first) = stranded.first() {
        let problem = new(format!("channel contains one or more stranded bundles: {}", stranded.join(", ")))
            .label("nothing on the way from the head leads here")
            .help(format!("add it to the `skips` of {head}, or let an entry of the chain replace it"));
        problems.report(problem, channel.place_of(first));
    }
}
