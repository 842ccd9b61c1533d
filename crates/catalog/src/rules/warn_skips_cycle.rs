//! Skips have no cycles.

use std::collections::HashSet;

use fbc::{Problem, ProblemStage};

use super::{Check, Report, Rule};
use crate::draft::{DraftChannel, DraftPackage};

pub(super) const RULE: Rule = Rule {
    name: "skips-acyclic",
    about: "no entry leads back to itself by replaces and skips",
    check: Check::Channel(check),
};

fn check(package: &DraftPackage<'_>, channel: &DraftChannel<'_>, problems: &mut Vec<Problem>) {
    let view = channel.view();
    let mut done: HashSet<&str> = HashSet::new();
    for start in channel.entries {
        // Depth first without recursion: a name is open while its successors are visited.
        let mut open: HashSet<&str> = HashSet::new();
        let mut stack = vec![(&*start.name, false)];
        while let Some((name, leave)) = stack.pop() {
            if leave {
                open.remove(name);
                done.insert(name);
                continue;
            }
            if done.contains(name) {
                continue;
            }
            let Some(entry) = view.entry(name) else { continue };
            open.insert(name);
            stack.push((name, true));
            for next in entry.skips.iter().map(|skip| &**skip).chain(std::iter::once(&*entry.replaces)) {
                if open.contains(next) {
                    let message = format!("entry \"{name}\" leads back to \"{next}\" by replaces and skips");
                    let problem = Problem::new(RULE.name, ProblemStage::Model, message).warning().about(
                        package.name,
                        channel.name,
                        "",
                    );
                    problems.report(problem, channel.place_of(name));
                    return;
                }
                stack.push((next, false));
            }
        }
    }
}
