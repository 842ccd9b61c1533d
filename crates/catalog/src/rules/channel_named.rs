//! A channel has a name.

use fbc::blob::CHANNEL;
use fbc::json::JsonPath;
use fbc::{Problem, ProblemStage};

use super::{Check, Report, Rule};
use crate::draft::Draft;

pub(super) const RULE: Rule =
    Rule { name: "channel-named", about: "a channel has a name", check: Check::Catalog(check) };

fn check(draft: &Draft<'_>, problems: &mut Vec<Problem>) {
    for blob in draft.blobs(CHANNEL) {
        if blob.name.is_empty() && draft.packages.contains_key(&*blob.package) {
            let message = format!("package \"{}\" contains channel with no name", blob.package);
            let problem = Problem::new(RULE.name, ProblemStage::Channels, message).about(&blob.package, "", "");
            problems.report(problem.help("add a \"name\""), blob.place(JsonPath::default()));
        }
    }
}
