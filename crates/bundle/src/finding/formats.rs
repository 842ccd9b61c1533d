//! Findings for users, code hosts and editors.

use std::fmt::Write as _;

use fbc::spelling::github::Annotation;
use fbc::spelling::sarif::{self, SarifResult};
use serde_json::json;

use super::{Finding, Findings, Severity};
use crate::check::SUITES;

impl Finding {
    /// Returns the message with its object.
    pub fn described(&self) -> String {
        match &*self.object {
            "" => self.message.clone(),
            object => format!("{object}: {}", self.message),
        }
    }
}

impl Findings {
    /// Formats the findings as text.
    pub fn text(&self) -> String {
        text(&self.findings)
    }

    /// Formats the findings as a SARIF log.
    pub fn sarif(&self) -> String {
        sarif_log(&self.findings)
    }

    /// Formats workflow commands, with which GitHub annotates the lines of findings.
    pub fn github(&self) -> String {
        self.findings.iter().map(annotation).collect()
    }

    /// Formats the findings as a Markdown table.
    pub fn markdown(&self) -> String {
        markdown(&self.findings)
    }
}

fn place(finding: &Finding) -> String {
    match (&*finding.file, finding.position) {
        ("", _) => String::new(),
        (file, Some(at)) => format!("{file}:{}:{}", at.line, at.column),
        (file, None) => file.to_owned(),
    }
}

fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    let mut bundles = findings.iter().map(|finding| &finding.bundle).filter(|bundle| !bundle.is_empty());
    let first = bundles.next();
    let several = bundles.any(|bundle| Some(bundle) != first);
    for (at, finding) in findings.iter().enumerate() {
        if several && !finding.bundle.is_empty() {
            let _ = write!(out, "{}: ", finding.bundle);
        }
        let _ = writeln!(out, "{}: {} [{}]", finding.severity, finding.described(), finding.id);
        let place = place(finding);
        if !place.is_empty() {
            let _ = writeln!(out, "  --> {place}");
        }
        // Neighbours of one rule have the same advice, which follows the last of them.
        let shared =
            |next: &Finding| next.id == finding.id && next.help == finding.help && suites(next) == suites(finding);
        if findings.get(at + 1).is_some_and(shared) {
            continue;
        }
        if !finding.suites.is_empty() {
            let _ = writeln!(out, "  suites: {}", suites(finding));
        }
        if !finding.help.is_empty() {
            let _ = writeln!(out, "  help: {}", finding.help);
        }
    }
    out
}

/// Returns which suites reject the bundle for a finding, and which advise it.
fn suites(finding: &Finding) -> String {
    let rejecting: Vec<&str> = finding.rejected_by().collect();
    let advising = finding.suites.iter().copied().filter(|suite| !rejecting.contains(suite)).collect::<Vec<_>>();
    // Every suite has the checks of the existing tool.
    let is_everywhere = finding.suites.len() == SUITES.len();
    match (&*rejecting, &*advising) {
        ([], _) if is_everywhere => "advice of all".into(),
        ([], advising) => format!("advice of {}", advising.join(", ")),
        (rejecting, []) => format!("rejected by {}", rejecting.join(", ")),
        (rejecting, _) if is_everywhere => format!("rejected by {}; advice of the others", rejecting.join(", ")),
        (rejecting, advising) => format!("rejected by {}; advice of {}", rejecting.join(", "), advising.join(", ")),
    }
}

fn sarif_log(findings: &[Finding]) -> String {
    let danger = |severity| match severity {
        Severity::Critical => Some("9.5"),
        Severity::High => Some("8.0"),
        Severity::Medium => Some("5.0"),
        Severity::Low => Some("2.0"),
        _ => None,
    };
    let about = |name: &str| {
        let worst = findings.iter().filter(|finding| finding.id == name).map(|finding| finding.severity).max();
        let danger = worst.and_then(danger);
        let properties = danger.map(|danger| json!({"security-severity": danger, "tags": ["security"]}));
        (name.replace('-', " "), properties)
    };
    let results = findings.iter().map(|finding| SarifResult {
        rule: finding.id,
        level: level(finding.severity),
        text: finding.described(),
        help: finding.help.clone(),
        file: &finding.file,
        region: finding.position.map(|at| json!({"startLine": at.line, "startColumn": at.column})),
        logical: Vec::new(),
    });
    sarif::log(results.collect(), about, None)
}

/// Returns the SARIF level of a severity.
fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::Error | Severity::High => "error",
        Severity::Warning | Severity::Medium => "warning",
        Severity::Low | Severity::Info => "note",
    }
}

fn annotation(finding: &Finding) -> String {
    let level = match level(finding.severity) {
        "note" => "notice",
        other => other,
    };
    Annotation {
        level,
        file: Some(&*finding.file).filter(|file| !file.is_empty()),
        line: finding.position.map(|at| (at.line as u64, Some(at.column as u64))),
        title: finding.id,
        message: &finding.described(),
    }
    .line()
}

/// The maximum number of visible table rows; the rest is folded.
const ROWS: usize = 50;

fn markdown(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "Nothing found.\n".into();
    }
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', "<br>");
    let row = |finding: &Finding| {
        let place = place(finding);
        let place = if place.is_empty() { String::new() } else { format!("`{place}`") };
        format!(
            "| {} | {} | {} | {} | {place} |\n",
            finding.severity,
            finding.id,
            cell(&finding.object),
            cell(&finding.message)
        )
    };
    const HEAD: &str = "| severity | rule | object | what | where |\n|---|---|---|---|---|\n";
    let mut out = String::from(HEAD);
    findings.iter().take(ROWS).for_each(|finding| out.push_str(&row(finding)));
    if findings.len() > ROWS {
        let more = findings.len() - ROWS;
        let _ = write!(out, "\n<details><summary>{more} more</summary>\n\n{HEAD}");
        findings.iter().skip(ROWS).for_each(|finding| out.push_str(&row(finding)));
        out.push_str("\n</details>\n");
    }
    out
}
