//! A bundle is in some channel.

use std::collections::BTreeSet;

use fbc::{BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "bundle-in-channel",
    about: "a bundle is an entry of some channel of its package",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    if draft.incomplete {
        return;
    }
    for package in draft.packages.values() {
        // The entries of a channel that cannot be decoded are unknown.
        if package
            .channels
            .values()
            .any(|channel| channel.blob.is_some_and(|blob| matches!(blob.content, BlobContent::Broken)))
        {
            continue;
        }
        let entries: BTreeSet<&str> =
            package.channels.values().flat_map(|channel| channel.entries.iter().map(|entry| &*entry.name)).collect();
        for bundle in package.bundles.values().filter(|bundle| !entries.contains(bundle.name)) {
            let message =
                format!("package \"{}\", bundle \"{}\" not found in any channel entries", package.name, bundle.name);
            let problem = Problem::new(RULE.name, ProblemStage::Bundles, message)
                .about(package.name, "", bundle.name)
                .help("add an entry for it to a channel, or remove the bundle");
            problems.report(problem, bundle.blob.place(path!["name"]));
        }
    }
}
