//! A channel is declared once in its package.

use std::collections::BTreeMap;

use fbc::blob::CHANNEL;
use fbc::{Blob, Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule = Rule {
    name: "channel-unique",
    about: "a channel of a package is declared by one olm.channel blob",
    check: Check::Catalog(check),
};

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    let mut seen = BTreeMap::new();
    for blob in draft.blobs(CHANNEL).filter(|blob| !blob.name.is_empty()) {
        let first: &Blob = seen.entry((&blob.package, &blob.name)).or_insert(blob);
        if !std::ptr::eq(first, blob) {
            let message = format!("package \"{}\" has duplicate channel \"{}\"", blob.package, blob.name);
            let problem = Problem::new(RULE.name, ProblemStage::Channels, message)
                .about(&blob.package, &blob.name, "")
                .duplicate_of(first.place(path!["name"]))
                .help("put all entries into one of the olm.channel blobs");
            problems.report(problem, blob.place(path!["name"]));
        }
    }
}
