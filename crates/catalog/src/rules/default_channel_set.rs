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
        let names: Vec<&str> = package.channels.keys().copied().collect();
        problem.help = match names[..] {
            [] => None,
            [only] => Some(format!("add `defaultChannel: {only}`")),
            _ => Some(format!("add a defaultChannel: one of {}", names.join(", "))),
        };
        problems.report(problem, package.place(path!["name"]));
    }
}
