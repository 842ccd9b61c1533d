//! A channel has entries.

use fbc::{BlobContent, Problem, ProblemStage, path};

use super::{Check, Guesses, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage};

pub(super) const RULE: Rule = Rule {
    name: "channel-has-entries",
    about: "a channel, and so the default channel, has at least one entry",
    check: Check::Channel(check),
};

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, problems: &mut Vec<Problem>) {
    let broken = channel.blob.is_some_and(|blob| matches!(blob.content, BlobContent::Broken));
    if !channel.entries.is_empty() || broken {
        return;
    }
    let problem = Problem::new(RULE.name, ProblemStage::Model, "channel must contain at least one bundle").about(
        package.name,
        channel.name,
        "",
    );
    match channel.blob {
        Some(_) => problems.report(problem.help("add entries, or remove the channel"), channel.place()),
        None => {
            let others = package.channels.values().filter(|other| other.blob.is_some()).map(|other| other.name);
            let help = match Guesses::new().nearest(channel.name, others) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => "name a channel of the package".into(),
            };
            let problem = problem.label("the package has no channel with this name").help(help);
            problems.report(problem, package.place(path!["defaultChannel"]));
        }
    }
}
