//! From what is written to what it means.

use fbc::json::Raw;
use fbc::{Blob, Fbc, Loaded, Problem, Severity};

use crate::draft::{Draft, DraftChannel, DraftPackage};
use crate::model::Catalog;
use crate::rules::{Check, RULES, Rule, STRICT, WARNINGS};

/// The outcome of checking a catalog.
pub struct Checked {
    /// The catalog, if nothing is wrong with it.
    pub catalog: Option<Catalog>,
    /// Everything that is wrong, and everything that looks wrong, in the order it is told.
    pub problems: Vec<Problem>,
}

impl Checked {
    /// Walks the problems that make the catalog unusable.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.severity == Severity::Error)
    }
}

/// Whether things that merely look wrong are told too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warnings {
    /// They are not looked for.
    Off,
    /// They are told.
    On,
    /// Those that the definition of the format asks for are errors.
    Strict {
        /// Whether the others are told.
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
    let catalog = if sound { Catalog::from_draft(&draft) } else { None };
    Checked { catalog, problems }
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
