//! A package names its default channel.

use fbc::{Problem, ProblemStage, path};

use super::{Check, Report, Rule};
use crate::draft::{Draft, DraftPackage};

pub(super) const RULE: Rule =
    Rule { name: "default-channel-set", about: "a package names its default channel", check: Check::Package(check) };

fn check(_: &Draft<'_>, package: &DraftPackage<'_>, problems: &mut Vec<Problem>) {
    if package.default_channel.is_empty() && !matches!(package.blob.content, fbc::BlobContent::Broken) {
        let mut problem =
            Problem::new(RULE.name, ProblemStage::Model, "default channel must be set").about(package.name, "", "");
        problem.help = package.channels.keys().next().map(|name| format!("add `defaultChannel: {name}`"));
        problems.report(problem, package.place(path!["name"]));
    }
}
