//! Formats findings about bundles.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use bundle::{Finding, Severity};
use clap::builder::TypedValueParser;
use serde_json::{Map, Value, json};
use source::LoadedBundle;

use crate::choice::choice;
use crate::exit::Failure;
use crate::github::Annotation;
use crate::printer::Printer;

/// The output format of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    Json,
    Sarif,
    Github,
    Markdown,
}

/// Parses an output format.
pub(crate) fn output() -> impl TypedValueParser<Value = Output> {
    choice([
        ("text", Output::Text),
        ("json", Output::Json),
        ("sarif", Output::Sarif),
        ("github", Output::Github),
        ("markdown", Output::Markdown),
    ])
}

/// A finding that a waiver accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waived {
    pub(crate) finding: Finding,
    /// The reason in the waiver.
    pub(crate) reason: String,
}

/// Prints findings, which must be sorted; `passed` is the overall result.
pub(crate) fn print(findings: &[Finding], passed: bool, output: Output, printer: &mut Printer) -> Result<(), Failure> {
    print_with_waived(findings, &[], passed, output, printer)
}

/// Prints findings, which must be sorted, and in JSON also the waived ones.
pub(crate) fn print_with_waived(
    findings: &[Finding],
    waived: &[Waived],
    passed: bool,
    output: Output,
    printer: &mut Printer,
) -> Result<(), Failure> {
    if !waived.is_empty() && output != Output::Json {
        let many = if waived.len() == 1 { "1 finding is".to_owned() } else { format!("{} findings are", waived.len()) };
        printer.report(&format!("{many} waived"));
    }
    let text = match output {
        Output::Text => text(findings),
        Output::Json => {
            // Serialize directly: a `Value` of thousands of findings takes more memory.
            let mut out = BufWriter::new(printer.data());
            serde_json::to_writer_pretty(&mut out, &Report::of(findings, waived, passed))
                .map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
            return Ok(out.flush()?);
        }
        Output::Sarif => sarif(findings),
        Output::Github => findings.iter().map(annotation).collect(),
        Output::Markdown => markdown(findings),
    };
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Sorts findings by descending severity, then by file and position.
pub(crate) fn sort(findings: &mut [Finding]) {
    fn place(it: &Finding) -> (&str, &str, usize) {
        (&it.bundle, &it.file, it.position.map_or(0, |at| at.line))
    }
    findings.sort_by(|a, b| (b.severity, place(a), a.id, &a.message).cmp(&(a.severity, place(b), b.id, &b.message)));
}

/// Adds lines to findings if the user can open the files of the bundle.
pub(crate) fn locate_in(bundle: &LoadedBundle, found: &mut [Finding]) {
    match bundle.has_files() {
        true => locate(found, &bundle.directory, bundle.shown.as_deref(), &bundle.limits),
        false => found.iter_mut().for_each(|finding| finding.file.clear()),
    }
}

/// Adds lines to findings in the bundle's directory; shows paths that the user can open.
pub(crate) fn locate(findings: &mut [Finding], directory: &Path, shown: Option<&str>, limits: &fbc::Limits) {
    let mut files: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, finding) in findings.iter().enumerate() {
        if !finding.file.is_empty() && finding.position.is_none() {
            files.entry(finding.file.clone()).or_default().push(at);
        }
    }
    // Read each file only once.
    for (file, numbers) in files {
        let wanted: Vec<(usize, &str)> =
            numbers.iter().map(|at| (findings[*at].document, findings[*at].pointer.as_str())).collect();
        let positions = bundle::positions(directory, &file, &wanted, limits);
        for (at, position) in numbers.into_iter().zip(positions) {
            let finding = &mut findings[at];
            finding.position = position;
            if let Some(shown) = shown {
                finding.file = Path::new(shown).join(&file).display().to_string();
            }
        }
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
    for finding in findings {
        if several && !finding.bundle.is_empty() {
            let _ = write!(out, "{}: ", finding.bundle);
        }
        let object = if finding.object.is_empty() { String::new() } else { format!("{}: ", finding.object) };
        let _ = writeln!(out, "{}: {object}{} [{}]", finding.severity, finding.message, finding.id);
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

/// Findings as JSON; the keys are a stable interface.
#[derive(serde::Serialize)]
struct Report<'a> {
    passed: bool,
    findings: Vec<Shown<'a>>,
    counts: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waived: Vec<ShownWaived<'a>>,
}

#[derive(serde::Serialize)]
struct ShownWaived<'a> {
    #[serde(flatten)]
    finding: Shown<'a>,
    reason: &'a str,
}

#[derive(serde::Serialize)]
struct Shown<'a> {
    id: &'a str,
    severity: String,
    message: &'a str,
    help: &'a str,
    bundle: &'a str,
    object: &'a str,
    file: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    pointer: &'a str,
}

impl<'a> Report<'a> {
    fn of(findings: &'a [Finding], waived: &'a [Waived], passed: bool) -> Report<'a> {
        let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
        let severities = Severity::ALL.into_iter().rev();
        let counts = severities.map(|severity| (severity.to_string(), count(severity).into())).collect();
        let waived = waived.iter().map(|it| ShownWaived { finding: Shown::of(&it.finding), reason: &it.reason });
        Report { passed, findings: findings.iter().map(Shown::of).collect(), counts, waived: waived.collect() }
    }
}

impl Shown<'_> {
    fn of(finding: &Finding) -> Shown<'_> {
        Shown {
            id: finding.id,
            severity: finding.severity.to_string(),
            message: &finding.message,
            help: &finding.help,
            bundle: &finding.bundle,
            object: &finding.object,
            file: &finding.file,
            line: finding.position.map(|at| at.line),
            column: finding.position.map(|at| at.column),
            pointer: &finding.pointer,
        }
    }
}

/// Returns findings as a JSON value.
pub(crate) fn json(findings: &[Finding], passed: bool) -> Value {
    serde_json::to_value(Report::of(findings, &[], passed)).unwrap_or_default()
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::Error | Severity::High => "error",
        Severity::Warning | Severity::Medium => "warning",
        Severity::Low | Severity::Info => "note",
    }
}

fn sarif(findings: &[Finding]) -> String {
    let mut ids: Vec<&str> = findings.iter().map(|finding| finding.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let danger = |severity| match severity {
        Severity::Critical => Some("9.5"),
        Severity::High => Some("8.0"),
        Severity::Medium => Some("5.0"),
        Severity::Low => Some("2.0"),
        _ => None,
    };
    let rules: Vec<Value> = ids
        .iter()
        .map(|id| {
            let mut rule = json!({"id": id, "shortDescription": {"text": id.replace('-', " ")}});
            let worst = findings.iter().filter(|finding| finding.id == *id).map(|finding| finding.severity).max();
            if let Some(danger) = worst.and_then(danger) {
                rule["properties"] = json!({"security-severity": danger, "tags": ["security"]});
            }
            rule
        })
        .collect();
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let mut message = finding.message.clone();
            if !finding.object.is_empty() {
                message = format!("{}: {message}", finding.object);
            }
            if !finding.help.is_empty() {
                let _ = write!(message, "\nhelp: {}", finding.help);
            }
            let mut result = json!({
                "ruleId": finding.id, "ruleIndex": ids.iter().position(|id| *id == finding.id),
                "level": level(finding.severity), "message": {"text": message},
            });
            if !finding.file.is_empty() {
                let mut physical = json!({"artifactLocation": {"uri": crate::sarif::uri(&finding.file)}});
                if let Some(at) = finding.position {
                    physical["region"] = json!({"startLine": at.line, "startColumn": at.column});
                }
                result["locations"] = json!([{"physicalLocation": physical}]);
            }
            result
        })
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "opm", "version": env!("CARGO_PKG_VERSION"),
                "informationUri": "https://olm.operatorframework.io", "rules": rules,
            }},
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

fn annotation(finding: &Finding) -> String {
    let level = match level(finding.severity) {
        "note" => "notice",
        other => other,
    };
    let object = if finding.object.is_empty() { String::new() } else { format!("{}: ", finding.object) };
    Annotation {
        level,
        file: Some(&*finding.file).filter(|file| !file.is_empty()),
        line: finding.position.map(|at| (at.line as u64, Some(at.column as u64))),
        title: finding.id,
        message: &format!("{object}{}", finding.message),
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
