//! A deprecation has a message.

use fbc::blob::{BUNDLE, CHANNEL, PACKAGE};
use fbc::{Problem, ProblemStage};

use super::{Check, Report, Rule};
use crate::draft::{Draft, DraftChannel, DraftPackage};

pub(super) const OF_BUNDLE: Rule =
    Rule { name: "deprecation-message", about: "a deprecation has a message", check: Check::Entry(bundle) };
pub(super) const OF_CHANNEL: Rule =
    Rule { name: OF_BUNDLE.name, about: OF_BUNDLE.about, check: Check::ChannelAfter(channel) };
pub(super) const OF_PACKAGE: Rule =
    Rule { name: OF_BUNDLE.name, about: OF_BUNDLE.about, check: Check::PackageAfter(package) };

fn bundle(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, index: usize, problems: &mut Vec<Problem>) {
    let name = &channel.entries[index].name;
    check(package, BUNDLE, name, (channel.name, name), problems);
}

fn channel(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, problems: &mut Vec<Problem>) {
    check(package, CHANNEL, channel.name, (channel.name, ""), problems);
}

fn package(_: &Draft<'_>, package: &DraftPackage<'_>, problems: &mut Vec<Problem>) {
    check(package, PACKAGE, "", ("", ""), problems);
}

fn check(
    package: &DraftPackage<'_>,
    schema: &str,
    name: &str,
    (channel, bundle): (&str, &str),
    problems: &mut Vec<Problem>,
) {
    if let Some(("", place)) = package.deprecation(schema, name) {
        let problem = Problem::new(OF_BUNDLE.name, ProblemStage::Model, "invalid deprecation: message must be set");
        problems.report(problem.about(package.name, channel, bundle).help("say what to use instead"), place);
    }
}
