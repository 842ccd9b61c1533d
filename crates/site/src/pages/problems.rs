//! The problems of the catalog, and content that could not be shown.

use std::path::Path;

use bundle::{Finding, Severity};
use fbc::ProblemSeverity;
use fbc::locate::LocatedProblem;
use maud::html;

use crate::frame::{ConsoleSection, Page, PageContext};
use crate::summary::Row;
use crate::text::{count, t};

/// A package that is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnservedPackage {
    /// Its name.
    pub package: String,
    /// Its problems.
    pub reason: String,
}

/// A problem that a validation rule found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProblemRow {
    pub rule: String,
    /// Whether it is a warning.
    pub warning: bool,
    /// The package, if it concerns one.
    pub package: String,
    pub message: String,
    /// The file, line and column.
    pub place: String,
    /// How to fix it.
    pub help: String,
}

impl ProblemRow {
    /// Returns the row of a problem of a catalog.
    pub fn of_problem(found: &LocatedProblem<'_>) -> ProblemRow {
        let problem = found.problem;
        ProblemRow {
            rule: problem.rule.to_owned(),
            warning: problem.severity == ProblemSeverity::Warning,
            package: problem.scope.package.clone().unwrap_or_default(),
            message: problem.message.clone(),
            place: match (&found.path, &found.located) {
                (Some(path), Some(at)) => format!("{path}:{}:{}", at.line, at.column),
                (Some(path), None) => path.clone(),
                (None, _) => String::new(),
            },
            help: found.help().unwrap_or_default(),
        }
    }

    /// Returns the row of a finding about the bundle in a directory, with paths in the bundle.
    pub fn of_finding(finding: Finding, directory: &Path) -> ProblemRow {
        let file = Path::new(&finding.file);
        let file = file.strip_prefix(directory).unwrap_or(file).display();
        ProblemRow {
            place: match finding.position {
                Some(position) => format!("{file}:{}:{}", position.line, position.column),
                None => file.to_string(),
            },
            rule: finding.id.to_owned(),
            warning: finding.severity < Severity::Error,
            package: String::new(),
            message: finding.message,
            help: finding.help,
        }
    }
}

/// Renders the page.
pub fn page(
    context: &PageContext<'_>,
    rows: &[Row],
    left_out: &[UnservedPackage],
    refused: Option<&str>,
    found: Option<&[ProblemRow]>,
) -> Page {
    let with: Vec<&Row> = rows.iter().filter(|row| !row.problems.is_empty()).collect();
    let clean =
        with.is_empty() && left_out.is_empty() && refused.is_none() && found.is_none_or(<[ProblemRow]>::is_empty);
    let body = html! {
        div.intro { h1 { "Problems" } p.soft { "Problems that validation found, and content that could not be shown." } }
        @if clean { div.note { p { "No problems. Every package passes all " (catalog::rules::RULES.len()) " rules of " code { "opm validate" } "." } } }
        @if let Some(reason) = refused { section.section { h2 { "The last update was refused" } (lines(reason)) } }
        @if !left_out.is_empty() {
            section.section { h2 { (count(left_out.len(), "package", "packages")) " not served" }
                @for one in left_out { h3 { (t(&one.package)) } (lines(&one.reason)) }
            }
        }
        @if let Some(found) = found { @if !found.is_empty() {
            section.section { h2 { "Found by the rules" }
                @for problem in found {
                    div.note.bad[!problem.warning].warn[problem.warning] {
                        p { strong { (t(&problem.message)) } }
                        @if !problem.place.is_empty() { p { code { (t(&problem.place)) } } }
                        @if !problem.help.is_empty() { p { (t(&problem.help)) } }
                        p.small { @if problem.warning { "warning" } @else { "error" } " [" (t(&problem.rule)) "]" }
                    }
                }
            }
        } }
        @if !with.is_empty() {
            section.section {
                h2 #shown { "Could not be shown" }
                div.scroll tabindex="0" role="group" aria-label="Problems" {
                    table {
                        thead { tr { th scope="col" { "Package" } th scope="col" { "What" } } }
                        tbody { @for row in with { @for problem in &row.problems { tr { th scope="row" { a href=(context.links.package(&row.name)) { (t(&row.name)) } } td { (t(problem)) } } } } }
                    }
                }
            }
        }
    };
    Page { title: "Problems".to_owned(), section: ConsoleSection::Problems, crumbs: Vec::new(), body, name: "problems" }
}

fn lines(text: &str) -> maud::Markup {
    crate::frame::block("Message", text)
}
