//! The replaces chain of a channel ends, and reaches every entry that is not skipped.

use fbc::{Problem, ProblemStage};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage, Head};

pub(super) const RULE: Rule = Rule {
    name: "channel-chain",
    about: "the replaces chain from the head of a channel has no cycle, and every entry is on it or skipped",
    check: Check::Channel(check),
};

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, problems: &mut Vec<Problem>) {
    let Head::One(head) = channel.head() else { return };
    let view = channel.view();
    let Some(number) = view.number(head) else { return };
    let name = |number: usize| &*view.entries()[number].name;
    let new =
        |message: String| Problem::new(RULE.name, ProblemStage::Model, message).about(package.name, channel.name, "");
    let trunk = view.trunk(number);
    if let Some(back) = trunk.cycle {
        let start = trunk.numbers.iter().position(|&number| number == back).unwrap_or_default();
        let cycle: Vec<&str> = trunk.numbers[start..].iter().chain([&back]).map(|&number| name(number)).collect();
        let problem = new(format!("detected cycle in replaces chain of upgrade graph: {}", cycle.join(" -> ")))
            .label(format!("replaces \"{}\", which is newer", name(back)))
            .help("an entry replaces an older one; break the cycle at its oldest entry");
        problems.report(problem, trunk.numbers.last().and_then(|&last| channel.place_of(name(last))));
        return;
    }
    let mut stranded: Vec<&str> = view.stranded(number).into_iter().map(name).collect();
    stranded.sort_unstable();
    if let Some(first) = stranded.first() {
        let problem = new(format!("channel contains one or more stranded bundles: {}", stranded.join(", ")))
            .label("the replaces chain from the head does not reach this entry")
            .help(format!("add it to the `skips` of {head}, or let an entry of the chain replace it"));
        problems.report(problem, channel.place_of(first));
    }
}
