//! Problems as people and programs read them.

use std::collections::BTreeMap;

use fbc::locate::{Located, Locator};
use fbc::{Fbc, Problem, Severity, Spot, Stage};

use crate::printer::{Printer, Style};

/// A problem with its place found.
pub(crate) struct Found<'a> {
    pub(crate) problem: &'a Problem,
    /// The path of the file, as the user can open it.
    pub(crate) path: Option<String>,
    pub(crate) located: Option<Located>,
}

/// Finds the places of problems.
pub(crate) fn find<'a>(fbc: &Fbc, problems: impl IntoIterator<Item = &'a Problem>) -> Vec<Found<'a>> {
    let mut locator = Locator::new(fbc);
    problems
        .into_iter()
        .map(|problem| {
            let place = problem.place.as_ref();
            let path = place.and_then(|place| fbc.full_path_of(place.file)).map(|path| path.display().to_string());
            let located = place.filter(|place| place.spot != Spot::File).and_then(|place| locator.locate(place));
            Found { problem, path, located }
        })
        .collect()
}

/// So many problems of one rule are shown to people. Who has more has one cause for most of them, or a program to read
/// them: formats for programs have them all.
const SHOWN_OF_A_RULE: usize = 100;

/// Returns the problems that are shown, and how many more each rule has.
fn cap<'f, 'a>(found: &'f [Found<'a>]) -> (Vec<&'f Found<'a>>, BTreeMap<&'static str, usize>) {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut shown = Vec::new();
    for found in found {
        let count = counts.entry(found.problem.rule).or_default();
        *count += 1;
        if *count <= SHOWN_OF_A_RULE {
            shown.push(found);
        }
    }
    let more = counts.into_iter().filter(|(_, count)| *count > SHOWN_OF_A_RULE);
    (shown, more.map(|(rule, count)| (rule, count - SHOWN_OF_A_RULE)).collect())
}

/// Reports problems on stderr: first the errors in the words that older tools use, then each with
/// its place, the line in question, and what would mend it.
pub(crate) fn tell(printer: &Printer, found: &[Found<'_>]) {
    let all = found.iter().filter(|found| found.problem.severity == Severity::Error).count();
    let (found, more) = cap(found);
    let errors: Vec<&Found<'_>> =
        found.iter().copied().filter(|found| found.problem.severity == Severity::Error).collect();
    if !errors.is_empty() {
        let summary = catalog::tree::message(errors.iter().map(|found| found.problem));
        printer.tell(&format!("{} {summary}", printer.paint(Style::Error, "error:")));
    }
    for found in found {
        if found.problem.severity == Severity::Warning {
            printer.warning(&found.problem.message);
        } else if errors.len() > 1 && (found.path.is_some() || found.problem.help.is_some()) {
            printer.tell(&format!("\n{}{}", scope(found.problem), found.problem.message));
        }
        tell_place(printer, found);
    }
    for (rule, count) in more {
        let problems = if count == 1 { "problem" } else { "problems" };
        printer.tell(&format!("\n... and {count} more {problems} of the rule [{rule}]"));
    }
    if all > 1 {
        printer.tell(&format!("\n{all} problems found"));
    }
}

/// Names what a problem is about where its message does not.
fn scope(problem: &Problem) -> String {
    if problem.stage != Stage::Model {
        return String::new();
    }
    let scope = &problem.scope;
    let parts = [("package", &scope.package), ("channel", &scope.channel), ("bundle", &scope.bundle)];
    let named: Vec<String> =
        parts.iter().filter_map(|(kind, name)| name.as_ref().map(|name| format!("{kind} {name:?}"))).collect();
    if named.is_empty() { String::new() } else { format!("{}: ", named.join(", ")) }
}

fn tell_place(printer: &Printer, found: &Found<'_>) {
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
            printer.tell(&format!("{margin}{arrow} {path}:{}:{} [{rule}]", located.line, located.column));
            printer.tell(&format!("{} {bar} {}", printer.paint(Style::Note, &number), visible(&located.text)));
            printer.tell(format!("{margin} {bar} {before}{marks} {label}").trim_end());
        }
        (Some(path), None) => printer.tell(&format!("  {arrow} {path} [{rule}]")),
        (None, _) => {}
    }
    if let Some(help) = &found.problem.help {
        printer.tell(&format!("{} {help}", printer.paint(Style::Help, "help:")));
    }
}

/// Makes characters visible that could confuse a terminal.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}
