//! From what is written to what it means.

use fbc::json::Raw;
use fbc::{Blob, Fbc, Loaded, Problem, Severity, Stage};

use crate::draft::{Draft, DraftChannel, DraftPackage};
use crate::model::Catalog;
use crate::rules::{Check, RULES, Rule, STRICT, WARNINGS};

/// The outcome of checking a catalog.
pub struct Checked {
    /// The catalog, or why there is none.
    pub catalog: Result<Catalog, Problems>,
    /// What looks wrong with a catalog that can be used, in the order it is reported.
    pub warnings: Vec<Problem>,
}

/// Why a catalog cannot be used: everything that is wrong, and everything that looks wrong, in the order it is reported.
///
/// At least one of them is an error.
#[derive(Debug)]
pub struct Problems(Vec<Problem>);

impl Checked {
    /// Returns everything that is wrong or looks wrong, in the order it is reported.
    pub fn problems(&self) -> &[Problem] {
        match &self.catalog {
            Ok(_) => &self.warnings,
            Err(Problems(problems)) => problems,
        }
    }

    /// Walks the problems that make the catalog unusable.
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
    /// Walks the errors among them.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        errors(&self.0)
    }

    /// Returns the errors among them.
    pub fn into_errors(self) -> Vec<Problem> {
        self.0.into_iter().filter(|problem| problem.severity == Severity::Error).collect()
    }
}

fn errors(problems: &[Problem]) -> impl Iterator<Item = &Problem> {
    problems.iter().filter(|problem| problem.severity == Severity::Error)
}

/// Whether things that merely look wrong are reported too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warnings {
    /// No rule on them runs.
    Off,
    /// They are reported.
    On,
    /// Those that the definition of the format asks for are errors.
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
        RULES.iter().chain(strict).chain(warnings)
    }

    /// Makes errors of what a strict check does not tolerate.
    fn judge(self, problems: &mut [Problem]) {
        if !matches!(self, Warnings::Strict { .. }) {
            return;
        }
        for problem in problems.iter_mut().filter(|problem| problem.severity == Severity::Warning) {
            if STRICT.iter().any(|rule| rule.name == problem.rule) {
                problem.severity = Severity::Error;
            }
        }
    }
}

/// Returns what looks at each blob while its text is at hand, for [`fbc::LoadOptions::inspect`].
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
/// `loaded` is what loading `fbc` with [`inspect`] gave.
pub fn check(fbc: &Fbc, loaded: Loaded, warnings: Warnings) -> Checked {
    let draft = Draft::new(fbc, loaded.incomplete);
    let mut problems = loaded.problems;
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
    problems.sort_by(Problem::order);
    warnings.judge(&mut problems);
    let sound = problems.iter().all(|problem| problem.severity == Severity::Warning);
    if !sound {
        return Checked { catalog: Err(Problems(problems)), warnings: Vec::new() };
    }
    match Catalog::from_draft(&draft) {
        Some(catalog) => Checked { catalog: Ok(catalog), warnings: problems },
        None => {
            // Rules do not miss what may be in a file that could not be read.
            let message = "parts of the catalog could not be read";
            problems.insert(0, Problem::new("incomplete", Stage::Load, message.to_owned()));
            Checked { catalog: Err(Problems(problems)), warnings: Vec::new() }
        }
    }
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
    // An entry that is listed twice is wrong for that reason alone.
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
