//! Formats findings about bundles.

use std::fmt::Write as _;

use bundle::{Finding, Findings};
use clap::builder::TypedValueParser;

use crate::choice::choice;
use crate::exit::Failure;
use crate::github::Annotation;
use crate::printer::Printer;
use crate::sarif;

/// The output format of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FindingsOutput {
    Text,
    Json,
    Sarif,
    Github,
    Markdown,
}

/// Parses an output format.
pub(crate) fn output() -> impl TypedValueParser<Value = FindingsOutput> {
    choice([
        ("text", FindingsOutput::Text),
        ("json", FindingsOutput::Json),
        ("sarif", FindingsOutput::Sarif),
        ("github", FindingsOutput::Github),
        ("markdown", FindingsOutput::Markdown),
    ])
}

/// Prints findings.
pub(crate) fn print(report: &Findings, output: FindingsOutput, printer: &mut Printer) -> Result<(), Failure> {
    let Findings { findings, waived, .. } = report;
    if !waived.is_empty() && output != FindingsOutput::Json {
        printer.report(&waived_line(waived.len()));
    }
    let text = match output {
        FindingsOutput::Text => text(findings),
        FindingsOutput::Json => return Ok(printer.json(report)?),
        FindingsOutput::Sarif => sarif::findings(findings),
        FindingsOutput::Github => findings.iter().map(annotation).collect(),
        FindingsOutput::Markdown => markdown(findings),
    };
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Returns the line that counts waived findings.
pub(crate) fn waived_line(count: usize) -> String {
    let many = if count == 1 { "1 finding is".to_owned() } else { format!("{count} findings are") };
    format!("{many} waived")
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
    for finding in findings {
        if several && !finding.bundle.is_empty() {
            let _ = write!(out, "{}: ", finding.bundle);
        }
        let _ = writeln!(out, "{}: {} [{}]", finding.severity, message(finding), finding.id);
        let place = place(finding);
        if !place.is_empty() {
            let _ = writeln!(out, "  --> {place}");
        }
        if !finding.help.is_empty() {
            let _ = writeln!(out, "  help: {}", finding.help);
        }
    }
    out
}

/// Returns the message of a finding with its object.
pub(crate) fn message(finding: &Finding) -> String {
    match &*finding.object {
        "" => finding.message.clone(),
        object => format!("{object}: {}", finding.message),
    }
}

fn annotation(finding: &Finding) -> String {
    let level = match sarif::level(finding.severity) {
        "note" => "notice",
        other => other,
    };
    Annotation {
        level,
        file: Some(&*finding.file).filter(|file| !file.is_empty()),
        line: finding.position.map(|at| (at.line as u64, Some(at.column as u64))),
        title: finding.id,
        message: &message(finding),
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
