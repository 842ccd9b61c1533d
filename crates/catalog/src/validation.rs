//! The result of a validation, as programs read it, and files that do not belong to a catalog.

mod formats;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fbc::locate::LocatedProblem;
use fbc::{Fbc, FileId};
use schemars::JsonSchema;
use serde::Serialize;

pub use formats::{github, sarif};

/// The result of a validation: that of upstream opm, and every problem with its position.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Validation<'a> {
    /// Whether there are no errors.
    pub passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ValidationError>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ValidationProblem<'a>>,
}

/// The errors of a catalog in the form of upstream opm.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ValidationError {
    /// The tree of errors.
    pub message: String,
}

/// A problem of a catalog. The keys are a stable interface; unknown values are omitted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ValidationProblem<'a> {
    /// The name of the violated rule, as in docs/rules.md.
    rule: &'a str,
    severity: ValidationSeverity,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// Whether it probably vanishes with another problem, whose help names what was meant.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    consequence: bool,
}

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ValidationSeverity {
    Error,
    Warning,
}

impl<'a> Validation<'a> {
    /// Creates the report of problems.
    pub fn new(found: &'a [LocatedProblem<'_>]) -> Validation<'a> {
        let errors = || found.iter().filter(|found| found.is_error()).map(|found| found.problem);
        let passed = errors().next().is_none();
        Validation {
            passed,
            error: (!passed).then(|| ValidationError { message: crate::tree::message(errors()) }),
            problems: found.iter().map(ValidationProblem::new).collect(),
        }
    }
}

impl<'a> ValidationProblem<'a> {
    fn new(found: &'a LocatedProblem<'_>) -> ValidationProblem<'a> {
        let problem = found.problem;
        ValidationProblem {
            rule: problem.rule,
            severity: if found.is_error() { ValidationSeverity::Error } else { ValidationSeverity::Warning },
            message: &problem.message,
            package: problem.scope.package.as_deref(),
            channel: problem.scope.channel.as_deref(),
            bundle: problem.scope.bundle.as_deref(),
            file: found.path.as_deref(),
            help: found.help(),
            line: found.located.as_ref().map(|located| located.line),
            column: found.located.as_ref().map(|located| located.column),
            consequence: found.is_consequence(),
        }
    }
}

/// The rules that unrelated files typically break.
const UNRELATED: [&str; 5] = ["json-syntax", "yaml-syntax", "utf-8", "document-is-object", "schema-required"];

/// The number of files that break these rules from which a directory looks like a whole repository.
const MANY: usize = 2;

/// Files that do not look like catalog files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnrelatedFiles {
    /// Their number.
    pub count: usize,
    /// Their names, with one name for a directory without catalog files.
    pub names: Vec<String>,
    /// The only directory with catalog files.
    pub catalog: Option<PathBuf>,
}

impl UnrelatedFiles {
    /// Finds the files that do not look like catalog files, if there are several or one has an unrelated extension: the
    /// user probably checks a whole repository.
    pub fn find(fbc: &Fbc, found: &[LocatedProblem<'_>], root: &Path) -> Option<UnrelatedFiles> {
        let has_blobs: BTreeSet<FileId> = fbc.blobs().iter().filter_map(|blob| Some(blob.origin?.0)).collect();
        let broken = found.iter().filter(|found| UNRELATED.contains(&found.problem.rule));
        let files = broken.filter_map(|found| found.problem.place.as_ref()).map(|place| place.file);
        let unrelated: BTreeSet<FileId> = files.filter(|file| !has_blobs.contains(file)).collect();
        let below = |file: FileId| {
            let path = fbc.full_path_of(file).unwrap_or_default();
            path.strip_prefix(root).map_or_else(|_| path.clone(), Path::to_path_buf)
        };
        let is_named_so = |file: &FileId| {
            below(*file).extension().is_none_or(|name| ["json", "yaml", "yml"].iter().any(|known| name == *known))
        };
        if unrelated.len() < MANY && unrelated.iter().all(is_named_so) {
            return None;
        }
        // Collapse a directory without catalog files to its name.
        let top = |file: FileId| {
            let path = below(file);
            let mut parts = path.components();
            let first = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned()).unwrap_or_default();
            (first, parts.next().is_some())
        };
        let good: BTreeSet<String> = has_blobs.iter().map(|file| top(*file).0).collect();
        let names: BTreeSet<String> = unrelated
            .iter()
            .map(|file| match top(*file) {
                (first, true) if !good.contains(&first) => format!("{first}/"),
                _ => below(*file).display().to_string(),
            })
            .collect();
        let tops = has_blobs.iter().map(|file| top(*file));
        let catalogs: BTreeSet<String> = tops.filter(|(_, inside)| *inside).map(|(first, _)| first).collect();
        let catalog = catalogs.first().filter(|_| catalogs.len() == 1).map(|first| root.join(first));
        Some(UnrelatedFiles { count: unrelated.len(), names: names.into_iter().collect(), catalog })
    }
}
