//! An entry is listed once in its channel.

use std::collections::BTreeSet;

use fbc::blob::CHANNEL;
use fbc::{BlobContent, Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule =
    Rule { name: "channel-entry-unique", about: "a channel lists a bundle once", check: Check::Catalog(check) };

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    for blob in draft.blobs(CHANNEL) {
        let BlobContent::Channel { entries } = &blob.content else { continue };
        let mut seen = BTreeSet::new();
        for (index, entry) in entries.iter().enumerate() {
            if !seen.insert(&entry.name) {
                let message = format!(
                    "invalid package \"{}\", channel \"{}\": duplicate entry \"{}\"",
                    blob.package, blob.name, entry.name
                );
                let problem = Problem::new(RULE.name, ProblemStage::Channels, message)
                    .about(&blob.package, &blob.name, &entry.name)
                    .label("already listed above")
                    .help("merge the two entries");
                problems.report(problem, blob.place(path!["entries", index, "name"]));
            }
        }
    }
}
