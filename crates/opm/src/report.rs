//! Problem reports on stderr.

use std::collections::BTreeMap;

pub(crate) use fbc::locate::{LocatedProblem, find};
use fbc::{Problem, ProblemSeverity, ProblemStage};

use crate::printer::{Printer, Style};

/// The maximum number of problems shown per rule. More of them usually share one cause; the machine-readable formats
/// contain all of them.
const MAX_SHOWN_PER_RULE: usize = 100;

/// The maximum number of places listed of similar problems.
const MAX_PLACES: usize = 20;

/// Returns the problems to show, and the number of hidden ones per rule.
fn cap<'f, 'a>(found: &'f [LocatedProblem<'a>]) -> (Vec<&'f LocatedProblem<'a>>, BTreeMap<&'static str, usize>) {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut shown = Vec::new();
    for found in found.iter().filter(|found| !found.is_consequence()) {
        let count = counts.entry(found.problem.rule).or_default();
        *count += 1;
        if *count <= MAX_SHOWN_PER_RULE {
            shown.push(found);
        }
    }
    let more = counts.into_iter().filter(|(_, count)| *count > MAX_SHOWN_PER_RULE);
    (shown, more.map(|(rule, count)| (rule, count - MAX_SHOWN_PER_RULE)).collect())
}

/// Reports each problem once on stderr: the message, its position, the source line and a fix. The number of errors
/// follows. Of problems that probably vanish with another one, only the number is reported.
pub(crate) fn show(printer: &Printer, found: &[LocatedProblem<'_>]) {
    let consequences = found.iter().filter(|found| found.is_consequence()).count();
    let errors = found.iter().filter(|found| found.is_error()).count() - consequences;
    let (shown, more) = cap(found);
    for (number, group) in group_similar(&shown).into_iter().enumerate() {
        let Some(first) = group.first() else { continue };
        if number > 0 {
            printer.report("");
        }
        if first.problem.severity == ProblemSeverity::Warning {
            printer.warning(&first.problem.message);
        } else {
            printer.error(&match &first.problem.plain {
                Some(plain) => plain.clone(),
                None => format!("{}{}", scope(first.problem), first.problem.message),
            });
        }
        show_place(printer, first);
        report_others(printer, group.get(1..).unwrap_or_default());
    }
    for (rule, count) in more {
        let problems = if count == 1 { "problem" } else { "problems" };
        printer.report(&format!("\n... and {count} more {problems} of the rule [{rule}]"));
    }
    if errors > 0 {
        let problems = if errors == 1 { "problem" } else { "problems" };
        let rest = match consequences {
            0 => "",
            1 => "; 1 more probably vanishes with IT",
            _ => "; N more probably vanish with IT",
        };
        let it = if errors == 1 { "it" } else { "them" };
        let rest = rest.replace("IT", it).replace('N', &consequences.to_string());
        printer.report(&format!("\n{errors} {problems} found{rest}"));
    }
}

/// Reports errors as a tree, as older tools print it.
pub(crate) fn show_tree(printer: &Printer, found: &[LocatedProblem<'_>]) {
    let errors = found.iter().filter(|found| found.problem.severity == ProblemSeverity::Error);
    let tree = catalog::tree::message(errors.map(|found| found.problem));
    if !tree.is_empty() {
        printer.error(&tree);
    }
}

/// The smallest number of problems, differing only in the version, that is reported as one.
const MIN_GROUP: usize = 3;

/// Groups problems that differ only in bundle names.
fn group_similar<'f, 'a>(found: &[&'f LocatedProblem<'a>]) -> Vec<Vec<&'f LocatedProblem<'a>>> {
    type Key<'a> = (&'a str, Option<String>, String);
    let key = |found: &LocatedProblem<'_>| -> Key<'_> {
        let message = match found.problem.rule {
            // Its message quotes the document.
            "schema-required" => String::new(),
            _ => without_versions(&found.problem.message),
        };
        (found.problem.rule, found.problem.scope.package.clone(), message)
    };
    let mut counts: BTreeMap<Key<'_>, usize> = BTreeMap::new();
    for found in found {
        *counts.entry(key(found)).or_default() += 1;
    }
    let mut groups: Vec<Vec<&LocatedProblem<'_>>> = Vec::new();
    let mut places: BTreeMap<Key<'_>, usize> = BTreeMap::new();
    for found in found {
        let key = key(found);
        if counts.get(&key).is_none_or(|count| *count < MIN_GROUP) {
            groups.push(vec![found]);
            continue;
        }
        let place = *places.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(found);
    }
    groups
}

/// Returns whether a quoted text is a bundle name with a version, like `etcd.v1.2.3`.
fn is_versioned(text: &str) -> bool {
    text.as_bytes().windows(3).any(|it| it[0].is_ascii_digit() && it[1] == b'.' && it[2].is_ascii_digit())
        && !text.contains([' ', '<', '>'])
}

fn without_versions(message: &str) -> String {
    let parts = message.split('"').enumerate();
    parts.map(|(number, part)| if number % 2 == 1 && is_versioned(part) { "" } else { part }).collect()
}

/// Lists the places of the problems that are like one that was reported.
fn report_others(printer: &Printer, others: &[&LocatedProblem<'_>]) {
    if others.is_empty() {
        return;
    }
    let places = if others.len() == 1 { "place" } else { "places" };
    printer.report(&format!("{} the same in {} other {places}:", printer.paint(Style::Note, "note:"), others.len()));
    for found in others.iter().take(MAX_PLACES) {
        let scope = &found.problem.scope;
        let names = [&scope.package, &scope.channel, &scope.bundle].into_iter().flatten();
        let names = names.map(String::as_str).collect::<Vec<_>>().join(", ");
        match (&found.path, &found.located) {
            (Some(path), Some(at)) => printer.report(&format!("  {path}:{}:{}  {names}", at.line, at.column)),
            (Some(path), None) => printer.report(&format!("  {path}  {names}")),
            (None, _) => printer.report(&format!("  {names}")),
        }
    }
    if others.len() > MAX_PLACES {
        printer.report(&format!("  ... and {} more; 'opm validate -o json' lists all", others.len() - MAX_PLACES));
    }
}

/// Returns a prefix with the package, channel and bundle that the message does not mention.
fn scope(problem: &Problem) -> String {
    if problem.stage != ProblemStage::Model {
        return String::new();
    }
    let scope = &problem.scope;
    let parts = [("package", &scope.package), ("channel", &scope.channel), ("bundle", &scope.bundle)];
    let is_new = |name: &&String| !problem.message.contains(&format!("{name:?}"));
    let named = parts.iter().filter_map(|(kind, name)| name.as_ref().filter(is_new).map(|it| format!("{kind} {it:?}")));
    let named: Vec<String> = named.collect();
    if named.is_empty() { String::new() } else { format!("{}: ", named.join(", ")) }
}

fn show_place(printer: &Printer, found: &LocatedProblem<'_>) {
    let arrow = printer.paint(Style::Note, "-->");
    let rule = found.problem.rule;
    match (&found.path, &found.located) {
        (Some(path), Some(located)) => {
            let number = located.line.to_string();
            let margin = " ".repeat(number.len());
            let bar = printer.paint(Style::Note, "|");
            let marks = printer.paint(Style::Error, &"^".repeat(located.marked.len().max(1)));
            let label = found.problem.label.as_deref().unwrap_or_default();
            let before: String =
                located.text.chars().take(located.marked.start).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            printer.report(&format!("{margin}{arrow} {path}:{}:{} [{rule}]", located.line, located.column));
            if is_binary(&located.text) {
                return show_help(printer, found);
            }
            printer.report(&format!("{} {bar} {}", printer.paint(Style::Note, &number), visible(&located.text)));
            printer.report(format!("{margin} {bar} {before}{marks} {label}").trim_end());
        }
        (Some(path), None) => printer.report(&format!("  {arrow} {path} [{rule}]")),
        (None, _) => {}
    }
    show_help(printer, found);
}

fn show_help(printer: &Printer, found: &LocatedProblem<'_>) {
    if let Some(help) = found.help() {
        printer.report(&format!("{} {help}", printer.paint(Style::Help, "help:")));
    }
}

/// Returns whether a line is not text, so that quoting it helps nobody.
fn is_binary(line: &str) -> bool {
    line.chars().filter(|c| *c == '\u{fffd}' || c.is_control() && *c != '\t').count() > line.chars().count() / 8
}

/// Replaces control characters, which could confuse a terminal.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}
