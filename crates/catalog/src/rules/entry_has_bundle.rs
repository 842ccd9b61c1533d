//! A channel entry has a bundle.

use std::collections::{BTreeMap, HashSet};

use fbc::{Problem, ProblemStage};

use super::{Check, Guesses, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "entry-has-bundle",
    about: "an entry of a channel names a bundle of the package",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    if draft.incomplete {
        return;
    }
    let mut guesses = Guesses::new();
    for package in draft.packages.values() {
        let mut missing = BTreeMap::new();
        for channel in package.channels.values() {
            for (index, entry) in channel.entries.iter().enumerate() {
                if !package.bundles.contains_key(&*entry.name) {
                    missing.entry(&*entry.name).or_insert((channel, index));
                }
            }
        }
        let listed: HashSet<&str> = match missing.is_empty() {
            true => HashSet::new(),
            false => package.channels.values().flat_map(|it| it.entries).map(|entry| &*entry.name).collect(),
        };
        // Older tools report all of them at once; here each has its own position.
        for (name, (channel, index)) in missing {
            let message =
                format!("no olm.bundle blobs found in package \"{}\" for olm.channel entries [{name}]", package.name);
            let mut problem = Problem::new(RULE.name, ProblemStage::Entries, message)
                .about(package.name, channel.name, name)
                .label("the package has no bundle with this name");
            // A bundle that no channel lists was probably meant; one that this channel lists was not.
            let bundles = || package.bundles.keys().copied();
            let unlisted = guesses.nearest(name, bundles().filter(|name| !listed.contains(name)));
            let near = unlisted.or_else(|| {
                let others = bundles().filter(|name| channel.view().number(name).is_none());
                guesses.nearest(name, others)
            });
            problem = match near {
                Some(near) => problem.meant(near, package.name, channel.name),
                None => problem.help("add an olm.bundle blob of this name, or remove the entry"),
            };
            problems.report(problem, channel.entry_place(index, "name"));
        }
    }
}
