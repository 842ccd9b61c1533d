//! Prints findings about bundles.

use bundle::Findings;
use clap::builder::TypedValueParser;

use crate::choice::choice;
use crate::exit::Failure;
use crate::printer::Printer;

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
    if !report.waived.is_empty() && output != FindingsOutput::Json {
        printer.report(&waived_line(report.waived.len()));
    }
    let text = match output {
        FindingsOutput::Text => report.text(),
        FindingsOutput::Json => return Ok(printer.json(report)?),
        FindingsOutput::Sarif => report.sarif(),
        FindingsOutput::Github => report.github(),
        FindingsOutput::Markdown => report.markdown(),
    };
    printer.data().write_all(text.as_bytes())?;
    Ok(())
}

/// Returns the line that counts waived findings.
pub(crate) fn waived_line(count: usize) -> String {
    let many = if count == 1 { "1 finding is".to_owned() } else { format!("{count} findings are") };
    format!("{many} waived")
}
