//! Findings about a bundle.

mod formats;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::rules;
use crate::whole::Position;

/// The severity of a finding; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information.
    Info,
    /// A minor risk.
    Low,
    /// A risk worth a review.
    Medium,
    /// A probable mistake.
    Warning,
    /// A serious risk.
    High,
    /// Prevents a bundle from being installed or published.
    Error,
    /// Grants control of the whole cluster.
    Critical,
}

impl Severity {
    /// All severities.
    pub const ALL: [Severity; 7] = [
        Severity::Info,
        Severity::Low,
        Severity::Medium,
        Severity::Warning,
        Severity::High,
        Severity::Error,
        Severity::Critical,
    ];

    /// Parses a severity from its display form.
    pub fn parse(text: &str) -> Option<Severity> {
        Severity::ALL.into_iter().find(|severity| severity.to_string() == text)
    }

    /// Returns the severity one step lower on the risk scale.
    #[must_use]
    pub fn lower(self) -> Severity {
        match self {
            Severity::Critical => Severity::High,
            Severity::High => Severity::Medium,
            Severity::Medium => Severity::Low,
            Severity::Low | Severity::Info => Severity::Info,
            Severity::Error => Severity::Warning,
            Severity::Warning => Severity::Info,
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Info => "info",
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::Warning => "warning",
            Severity::High => "high",
            Severity::Error => "error",
            Severity::Critical => "critical",
        })
    }
}

/// A finding about a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of the rule.
    pub id: &'static str,
    pub severity: Severity,
    pub message: String,
    /// How to fix it.
    pub help: String,
    /// The suites with this check; empty if no suite has it.
    pub suites: Vec<&'static str>,
    pub bundle: String,
    /// The object, as `KIND NAME`; empty if there is none.
    pub object: String,
    /// The file, relative to the bundle; empty if there is none.
    pub file: String,
    /// The index of the document in the file.
    pub document: usize,
    /// The location in the document, as a JSON pointer.
    pub pointer: String,
    /// The position in the file, once resolved.
    pub position: Option<Position>,
}

impl Finding {
    /// Creates a finding without a location, with the advice of its rule.
    pub fn new(id: &'static str, severity: Severity, message: impl Into<String>) -> Finding {
        Finding {
            id,
            severity,
            message: message.into(),
            help: rules::fix(id).to_owned(),
            suites: Vec::new(),
            bundle: String::new(),
            object: String::new(),
            file: String::new(),
            document: 0,
            pointer: String::new(),
            position: None,
        }
    }

    /// Sets the bundle.
    #[must_use]
    pub fn of(mut self, bundle: &str) -> Finding {
        self.bundle = bundle.to_owned();
        self
    }

    /// Sets the location.
    #[must_use]
    pub fn at(mut self, file: &str, document: usize, pointer: impl Into<String>) -> Finding {
        self.file = file.to_owned();
        self.document = document;
        self.pointer = pointer.into();
        self
    }

    /// Sets the object.
    #[must_use]
    pub fn about(mut self, object: impl Into<String>) -> Finding {
        self.object = object.into();
        self
    }

    /// Adds suites with this check.
    #[must_use]
    pub(crate) fn in_suites(mut self, suites: &[&'static str]) -> Finding {
        let new = suites.iter().filter(|suite| !self.suites.contains(suite)).copied();
        self.suites.extend(new.collect::<Vec<_>>());
        self
    }

    /// Returns the suites that reject the bundle for this finding. For its other suites it is advice.
    pub fn rejected_by(&self) -> impl Iterator<Item = &'static str> {
        let rejecting = if self.severity >= Severity::Error { rules::rejecting(self.id) } else { &[] };
        rejecting.iter().copied().filter(|suite| self.suites.contains(suite))
    }

    /// Sets the advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Finding {
        self.help = help.into();
        self
    }
}

/// A finding in reports.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Finding")]
struct FindingReport<'a> {
    /// The name of the rule.
    id: &'a str,
    severity: Severity,
    message: &'a str,
    /// How to fix it.
    help: &'a str,
    /// The suites with this check; empty if no suite has it.
    suites: &'a [&'static str],
    /// The suites that reject the bundle for it; for the others it is advice.
    #[serde(rename = "rejectedBy")]
    rejected_by: Vec<&'static str>,
    /// The name of the bundle; empty if there is only one.
    bundle: &'a str,
    /// The object, as `KIND NAME`; empty if there is none.
    object: &'a str,
    /// The file; empty if there is none.
    file: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    /// The location in the document, as a JSON pointer.
    pointer: &'a str,
}

impl<'a> From<&'a Finding> for FindingReport<'a> {
    fn from(finding: &'a Finding) -> FindingReport<'a> {
        FindingReport {
            id: finding.id,
            severity: finding.severity,
            message: &finding.message,
            help: &finding.help,
            suites: &finding.suites,
            rejected_by: finding.rejected_by().collect(),
            bundle: &finding.bundle,
            object: &finding.object,
            file: &finding.file,
            line: finding.position.map(|at| at.line),
            column: finding.position.map(|at| at.column),
            pointer: &finding.pointer,
        }
    }
}

reported_as!(Finding, FindingReport<'_>);

/// A finding that a waiver accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Waived {
    #[serde(flatten)]
    pub finding: Finding,
    /// The reason in the waiver.
    pub reason: String,
}

/// The findings about bundles, and whether they pass: the report of the commands that check bundles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// Whether no finding is one to fail on.
    pub passed: bool,
    /// The findings by descending severity, then by bundle, file and line.
    pub findings: Vec<Finding>,
    /// The findings that waivers accept.
    pub waived: Vec<Waived>,
}

impl Findings {
    /// Sorts findings; they pass unless one is to `fail`.
    pub fn new(mut findings: Vec<Finding>, fail: impl Fn(&Finding) -> bool) -> Findings {
        fn place(it: &Finding) -> (&str, &str, usize) {
            (&it.bundle, &it.file, it.position.map_or(0, |at| at.line))
        }
        // A file that cannot be read explains other findings.
        let later = |it: &Finding| it.id != "bundle-readable";
        findings.sort_by(|a, b| {
            (b.severity, later(a), place(a), a.id, &a.message).cmp(&(a.severity, later(b), place(b), b.id, &b.message))
        });
        Findings { passed: !findings.iter().any(fail), findings, waived: Vec::new() }
    }

    /// Returns how many findings have each severity, the worst first.
    pub fn counts(&self) -> FindingCounts<'_> {
        FindingCounts(&self.findings)
    }
}

/// Findings in reports.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Findings")]
struct FindingsReport<'a> {
    /// Whether no finding is one to fail on.
    passed: bool,
    /// The findings by descending severity, then by bundle, file and line.
    findings: &'a [Finding],
    /// The number of findings by severity.
    counts: FindingCounts<'a>,
    /// The findings that waivers accept.
    #[serde(skip_serializing_if = "<[Waived]>::is_empty")]
    waived: &'a [Waived],
}

impl<'a> From<&'a Findings> for FindingsReport<'a> {
    fn from(report: &'a Findings) -> FindingsReport<'a> {
        let Findings { passed, findings, waived } = report;
        FindingsReport { passed: *passed, findings, counts: report.counts(), waived }
    }
}

reported_as!(Findings, FindingsReport<'_>);

/// The number of findings by severity.
#[derive(Debug, Clone, Copy, JsonSchema)]
pub struct FindingCounts<'a>(#[schemars(with = "BTreeMap<Severity, usize>")] &'a [Finding]);

impl Serialize for FindingCounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let count = |severity| self.0.iter().filter(|finding| finding.severity == severity).count();
        serializer.collect_map(Severity::ALL.into_iter().rev().map(|severity| (severity, count(severity))))
    }
}
