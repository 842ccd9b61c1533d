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
            let others: Vec<&str> = others.collect();
            let problem = problem
                .plainly(format!("package {:?} has no channel {:?}, its default channel", package.name, channel.name))
                .label("the package has no channel with this name");
            let problem = match Guesses::new().nearest(channel.name, others.iter().copied()) {
                Some(near) => problem.meant(near, package.name, channel.name),
                None => problem.help(match others.join(", ") {
                    names if names.is_empty() => "add an olm.channel blob of this name".to_owned(),
                    names => format!("restore the channel, or name one that the package has: {names}"),
                }),
            };
            problems.report(problem, package.place(path!["defaultChannel"]));
        }
    }
}
