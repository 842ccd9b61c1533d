//! Builds a checked catalog from its blobs.

use std::collections::{HashMap, HashSet};

use fbc::json::Raw;
use fbc::{Blob, Fbc, LoadReport, Problem, ProblemRole, ProblemScope, ProblemSeverity, ProblemStage, Spot};

use crate::draft::{Draft, DraftChannel, DraftPackage};
use crate::model::Catalog;
use crate::rules::{Check, RULES, Rule, SPELLING, STRICT, WARNINGS};

/// The outcome of checking a catalog.
pub struct CheckOutcome {
    /// The catalog, or the problems that make it unusable.
    pub catalog: Result<Catalog, Problems>,
    /// The warnings of a usable catalog, in the order they are reported.
    pub warnings: Vec<Problem>,
}

/// The problems of an unusable catalog: errors and warnings, in the order they are reported.
///
/// At least one of them is an error.
#[derive(Debug)]
pub struct Problems(Vec<Problem>);

impl CheckOutcome {
    /// Returns all errors and warnings, in the order they are reported.
    pub fn problems(&self) -> &[Problem] {
        match &self.catalog {
            Ok(_) => &self.warnings,
            Err(Problems(problems)) => problems,
        }
    }

    /// Iterates over the errors.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        errors(self.problems())
    }

    /// Returns all problems without the catalog.
    pub fn into_problems(self) -> Vec<Problem> {
        match self.catalog {
            Ok(_) => self.warnings,
            Err(Problems(problems)) => problems,
        }
    }
}

impl Problems {
    /// Iterates over the errors.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        errors(&self.0)
    }

    /// Returns the errors.
    pub fn into_errors(self) -> Vec<Problem> {
        self.0.into_iter().filter(|problem| problem.severity == ProblemSeverity::Error).collect()
    }
}

fn errors(problems: &[Problem]) -> impl Iterator<Item = &Problem> {
    problems.iter().filter(|problem| problem.severity == ProblemSeverity::Error)
}

/// Whether warnings are reported too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warnings {
    /// Warning rules do not run.
    Off,
    /// Warnings are reported.
    On,
    /// Warnings that the definition of the format requires are errors.
    Strict {
        /// Whether warnings are reported.
        warnings: bool,
    },
}

impl Warnings {
    fn rules(self) -> impl Iterator<Item = &'static Rule> {
        let (strict, warnings): (&[Rule], &[Rule]) = match self {
            Warnings::Off => (&[], &[]),
            Warnings::On | Warnings::Strict { warnings: true } => (STRICT, WARNINGS),
            Warnings::Strict { warnings: false } => (STRICT, &[]),
        };
        RULES.iter().chain(SPELLING).chain(strict).chain(warnings)
    }

    /// Turns the warnings that a strict check does not tolerate into errors.
    fn judge(self, problems: &mut [Problem]) {
        if !matches!(self, Warnings::Strict { .. }) {
            return;
        }
        for problem in problems.iter_mut().filter(|problem| problem.severity == ProblemSeverity::Warning) {
            if STRICT.iter().any(|rule| rule.name == problem.rule) {
                problem.severity = ProblemSeverity::Error;
            }
        }
    }
}

/// Returns a check of each blob while its text is in memory, for [`fbc::LoadOptions::inspect`].
pub fn inspect(warnings: Warnings) -> impl Fn(&Blob, Raw<'_>, &mut Vec<Problem>) + Sync {
    move |blob, text, problems| {
        for rule in warnings.rules() {
            if let Check::Text(check) = rule.check {
                check(blob, text, problems);
            }
        }
    }
}

/// Checks every rule and, if all of them hold, returns the catalog.
///
/// `loaded` is the result of loading `fbc` with [`inspect`].
pub fn check(fbc: &Fbc, loaded: LoadReport, warnings: Warnings) -> CheckOutcome {
    let draft = Draft::new(fbc, loaded.incomplete);
    let mut problems = loaded.problems;
    problems.extend(loaded.repeated);
    for rule in warnings.rules() {
        if let Check::Catalog(check) = rule.check {
            check(&draft, &mut problems);
        }
    }
    for package in draft.packages.values() {
        for rule in warnings.rules() {
            if let Check::Package(check) = rule.check {
                check(&draft, package, &mut problems);
            }
        }
        for channel in package.channels.values() {
            check_channel(package, channel, warnings, &mut problems);
        }
        for rule in warnings.rules() {
            if let Check::PackageAfter(check) = rule.check {
                check(&draft, package, &mut problems);
            }
        }
    }
    explain(&mut problems);
    problems.sort_by(Problem::order);
    warnings.judge(&mut problems);
    let valid = problems.iter().all(|problem| problem.severity == ProblemSeverity::Warning);
    if !valid {
        return CheckOutcome { catalog: Err(Problems(problems)), warnings: Vec::new() };
    }
    match Catalog::from_draft(&draft) {
        Some(catalog) => CheckOutcome { catalog: Ok(catalog), warnings: problems },
        None => {
            // Rules report nothing as missing that may be in an unreadable file.
            let message = "parts of the catalog could not be read";
            problems.insert(0, Problem::new("incomplete", ProblemStage::Load, message.to_owned()));
            CheckOutcome { catalog: Err(Problems(problems)), warnings: Vec::new() }
        }
    }
}

/// The rules about blobs that refer to each other: a misspelt name breaks them elsewhere.
const STRUCTURE: [&str; 11] = [
    "bundle-in-channel",
    "bundle-package-known",
    "channel-chain",
    "channel-has-entries",
    "channel-package-known",
    "channel-single-head",
    "default-channel-set",
    "deprecation-package-known",
    "deprecation-reference",
    "entry-has-bundle",
    "package-has-channels",
];

/// Keeps what explains problems, and marks these as consequences.
fn explain(problems: &mut Vec<Problem>) {
    let is_own = |problem: &Problem| {
        let read = !matches!(problem.stage, ProblemStage::Spelling | ProblemStage::Load);
        read && problem.severity == ProblemSeverity::Error && problem.role == ProblemRole::Own
    };
    // A blob whose name is misspelt belongs to no package.
    let document = |problem: &Problem| match problem.place.as_ref().map(|place| (place.file, &place.spot)) {
        Some((file, Spot::Value { document, .. })) => Some((file, *document)),
        _ => None,
    };
    let mut documents = HashSet::new();
    let mut explained: HashMap<String, HashSet<Option<String>>> = HashMap::new();
    for problem in problems.iter() {
        if let ProblemRole::Cause(ProblemScope { package, channel, .. }) = &problem.role {
            explained.entry(package.clone().unwrap_or_default()).or_default().insert(channel.clone());
            documents
                .extend(document(problem).filter(|_| problem.stage == ProblemStage::Spelling && channel.is_none()));
        }
    }
    let mut invalid = HashSet::new();
    for problem in problems.iter_mut().filter(|problem| is_own(problem)) {
        let package = problem.scope.package.clone().unwrap_or_default();
        if document(problem).is_some_and(|document| documents.contains(&document)) {
            problem.role = ProblemRole::Consequence;
        }
        if let Some(channels) = explained.get(&package).filter(|_| STRUCTURE.contains(&problem.rule)) {
            // A bundle in no channel can be missing from any of them.
            let of_any = problem.rule == "bundle-in-channel" || channels.contains(&None);
            if of_any || channels.contains(&problem.scope.channel) {
                problem.role = ProblemRole::Consequence;
            }
        }
        invalid.insert(package);
    }
    problems.retain(|problem| match &problem.role {
        ProblemRole::Cause(scope) if problem.stage == ProblemStage::Spelling => {
            invalid.contains(scope.package.as_deref().unwrap_or_default())
        }
        _ => true,
    });
}

fn check_channel(
    package: &DraftPackage<'_>,
    channel: &DraftChannel<'_>,
    warnings: Warnings,
    problems: &mut Vec<Problem>,
) {
    for rule in warnings.rules() {
        if let Check::Channel(check) = rule.check {
            check(package, channel, problems);
        }
    }
    let mut entries: Vec<usize> = (0..channel.entries.len()).collect();
    entries.sort_by(|&a, &b| channel.entries[a].name.cmp(&channel.entries[b].name));
    // An entry that is listed twice breaks that rule alone.
    entries.dedup_by(|b, a| channel.entries[*a].name == channel.entries[*b].name);
    for index in entries {
        for rule in warnings.rules() {
            if let Check::Entry(check) = rule.check {
                check(package, channel, index, problems);
            }
        }
    }
    for rule in warnings.rules() {
        if let Check::ChannelAfter(check) = rule.check {
            check(package, channel, problems);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_about_structure_exist() {
        for name in STRUCTURE {
            assert!(RULES.iter().any(|rule| rule.name == name), "{name}");
        }
    }
}
