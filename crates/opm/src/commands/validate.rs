//! `opm validate`: reports all problems of a catalog in one run.

use std::collections::BTreeSet;
use std::path::Path;

use catalog::Warnings;
use clap::builder::TypedValueParser;
use fbc::json::{JsonLayout, Raw, Text};
use fbc::{Blob, Fbc, FileId, Problem, ProblemSeverity};
use resolve::dependencies;
use resolve::input::InputReader;
use serde_json::{Value, json};
use source::{Images, LoadedCatalog, NamedSource, SourceOptions};

use super::offline::sources;

use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::github::Annotation;
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::{Printer, Style};
use crate::report::{self, LocatedProblem};
use crate::{limits, sarif, tree};

/// Check a file-based catalog and report all problems
#[derive(clap::Args)]
#[command(
    long_about = "Check a file-based catalog and report all problems.\n\n\
        For a valid catalog, opm prints nothing (one line on a terminal) and exits with code 0. Otherwise it reports every \
        problem with file, line and column, and exits with code 1. docs/rules.md lists the rules, and 'opm explain RULE' \
        explains one.\n\n\
        --strict enforces the whole specification, also where upstream opm is lenient: null or empty values, unknown fields, \
        properties without a type or value, invalid APIs and invalid version ranges.",
    after_help = "Examples:\n  \
        opm validate my-catalog\n  \
        opm validate my-catalog --warnings\n  \
        opm validate my-catalog --strict\n  \
        opm validate my-catalog --deps --with quay.io/example/other:latest\n  \
        opm validate quay.io/example/catalog:latest\n  \
        opm validate my-catalog -o sarif > problems.sarif\n  \
        opm validate my-catalog -o github    # annotations in a GitHub workflow"
)]
pub(crate) struct ValidateArgs {
    /// Catalog directory, image or database
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output())]
    output: ValidateOutput,
    /// Print problems as the error tree of upstream opm, without positions
    #[arg(long)]
    tree: bool,
    /// Also report warnings; they do not affect the exit code
    #[arg(long)]
    warnings: bool,
    /// Enforce the whole specification, also where upstream opm is lenient
    #[arg(long)]
    strict: bool,
    /// Also check that the dependencies of every installable bundle can be resolved
    #[arg(long)]
    deps: bool,
    /// Additional catalog for dependencies; can be repeated
    #[arg(long, value_name = "CATALOG", requires = "deps")]
    with: Vec<String>,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValidateOutput {
    Text,
    Json,
    Yaml,
    Sarif,
    Github,
}

fn output() -> impl TypedValueParser<Value = ValidateOutput> {
    choice([
        ("text", ValidateOutput::Text),
        ("json", ValidateOutput::Json),
        ("yaml", ValidateOutput::Yaml),
        ("sarif", ValidateOutput::Sarif),
        ("github", ValidateOutput::Github),
    ])
}

pub(crate) fn run(args: &ValidateArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let found = open(&args.source, &images)?;
    let (NamedSource::Catalog(path) | NamedSource::Database(path) | NamedSource::Bundle(path, _)) = &found;
    let warnings = match (args.strict, args.warnings) {
        (true, warnings) => Warnings::Strict { warnings },
        (false, true) => Warnings::On,
        (false, false) => Warnings::Off,
    };
    let reader = InputReader::default();
    let look = |blob: &Blob, text: Raw<'_>, _: &mut Vec<Problem>| {
        if args.deps {
            reader.add(blob, text);
        }
    };
    let options = SourceOptions { inspect: Some(&look), ..SourceOptions::catalogs(limits::from_env()?, &images) };
    let LoadedCatalog { fbc, checked } = source::read(&args.source, &found, &options, warnings)?;
    let is_valid = checked.catalog.is_ok();
    let mut problems = checked.into_problems();
    if args.deps && is_valid {
        let mut sources = vec![reader.finish(&fbc)];
        sources.extend(sources::load(&args.with, &[], &images, printer)?);
        problems.extend(dependencies::problems(&fbc, &sources));
    }
    if args.output == ValidateOutput::Text && fbc.blobs().is_empty() && problems.is_empty() {
        printer.warning(&format!("\"{}\" contains no catalog files", args.source));
    }
    let found = report::find(&fbc, &problems);
    let errors: Vec<&LocatedProblem<'_>> =
        found.iter().filter(|found| found.problem.severity == ProblemSeverity::Error).collect();
    if args.output == ValidateOutput::Text && !errors.is_empty() && fbc::load::is_bundle_dir(path) {
        let source = &args.source;
        return Err(Failure::message(format!(
            "\"{source}\" is a bundle directory, not a catalog\nhelp: 'opm bundle validate {source}' checks it, and 'opm render \
             {source}' renders it as a catalog"
        )));
    }
    match args.output {
        ValidateOutput::Text if args.tree => report::show_tree(printer, &found),
        ValidateOutput::Text if errors.is_empty() && printer.stderr_is_terminal => {
            report::show(printer, &found);
            printer.report("No errors found");
        }
        ValidateOutput::Text => {
            report::show(printer, &found);
            report_unrelated(&fbc, &found, path, printer);
        }
        ValidateOutput::Json | ValidateOutput::Yaml => {
            let json = result(&found);
            let raw = json.raw();
            let mut out = Vec::new();
            if args.output == ValidateOutput::Json {
                fbc::json::write_as_written(raw, JsonLayout::Indented(2), 0, &mut out);
            } else {
                fbc::yaml::write_document(raw, &mut out);
            }
            out.push(b'\n');
            printer.data().write_all(&out)?;
            report_warnings(&found, printer);
        }
        ValidateOutput::Sarif => printer.data().write_all(sarif::log(&found).as_bytes())?,
        ValidateOutput::Github => printer.data().write_all(github(&found).as_bytes())?,
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::Reported) }
}

/// Finds the catalog. A single file is refused: it can be a part of one.
fn open(source: &str, images: &Images) -> Result<NamedSource, Failure> {
    let path = Path::new(source);
    if path.is_dir() {
        return Ok(NamedSource::Catalog(path.into()));
    }
    if path.exists() && !source::is_database(path) {
        let parent = tree::parent(path).display();
        let help = format!("to check the catalog that the file belongs to: opm validate {parent}");
        return Err(Failure::message(format!("\"{source}\" is not a directory\nhelp: {help}")));
    }
    Ok(source::resolve_one(source, images).map_err(|error| error.named(source))?)
}

/// The rules that unrelated files typically break.
const UNRELATED: [&str; 5] = ["json-syntax", "yaml-syntax", "utf-8", "document-is-object", "schema-required"];

/// Lists the files that do not look like catalog files, if there are several or one has an unrelated extension: the user
/// probably checks a whole repository.
fn report_unrelated(fbc: &Fbc, found: &[LocatedProblem<'_>], root: &Path, printer: &Printer) {
    const MANY: usize = 2;
    const SHOWN: usize = 8;
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
        return;
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
    let mut list: Vec<&str> = names.iter().map(String::as_str).take(SHOWN).collect();
    let more = format!("and {} more", names.len().saturating_sub(SHOWN));
    if names.len() > SHOWN {
        list.push(&more);
    }
    let them = if unrelated.len() == 1 { "it" } else { "them" };
    match unrelated.len() {
        1 => printer.report(&format!("\n{} does not look like a catalog file", list.join(", "))),
        count => printer.report(&format!("\n{count} files do not look like catalog files: {}", list.join(", "))),
    }
    let catalogs: Vec<String> =
        has_blobs.iter().map(|file| top(*file)).filter(|(_, inside)| *inside).map(|(first, _)| first).collect();
    let catalogs: BTreeSet<&String> = catalogs.iter().collect();
    let help = match catalogs.iter().next() {
        Some(first) if catalogs.len() == 1 => {
            format!(
                "list {them} in {}, or check only {}",
                root.join(".indexignore").display(),
                root.join(first).display()
            )
        }
        _ => format!("list {them} in {}", root.join(".indexignore").display()),
    };
    printer.report(&format!("{} {help}", printer.paint(Style::Help, "help:")));
}

/// The result in the format of upstream opm, plus every problem with its position.
fn result(found: &[LocatedProblem<'_>]) -> Text {
    let errors =
        || found.iter().filter(|found| found.problem.severity == ProblemSeverity::Error).map(|found| found.problem);
    Text::object(|result| {
        let passed = errors().next().is_none();
        result.bool("passed", passed);
        if !passed {
            result.object("error", |error| {
                error.string("message", &catalog::tree::message(errors()));
            });
        }
        if !found.is_empty() {
            let problems: Vec<Text> = found.iter().map(|found| Text::from(&problem_value(found))).collect();
            result.values("problems", problems.iter().map(Text::raw));
        }
    })
}

/// Returns a problem as JSON. The keys are a stable interface; unknown values are omitted.
fn problem_value(found: &LocatedProblem<'_>) -> Value {
    let problem = found.problem;
    let mut value = json!({
        "rule": problem.rule,
        "severity": match problem.severity {
            ProblemSeverity::Error => "error",
            ProblemSeverity::Warning => "warning",
        },
        "message": problem.message,
    });
    let scope = &problem.scope;
    let help = found.help();
    let texts = [
        ("package", scope.package.as_deref()),
        ("channel", scope.channel.as_deref()),
        ("bundle", scope.bundle.as_deref()),
        ("file", found.path.as_deref()),
        ("help", help.as_deref()),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            value[key] = text.into();
        }
    }
    if let Some(located) = &found.located {
        value["line"] = located.line.into();
        value["column"] = located.column.into();
    }
    value
}

fn report_warnings(found: &[LocatedProblem<'_>], printer: &Printer) {
    for found in found.iter().filter(|found| found.problem.severity == ProblemSeverity::Warning) {
        printer.warning(&found.problem.message);
    }
}

/// Formats workflow commands, with which GitHub annotates the lines of problems.
fn github(found: &[LocatedProblem<'_>]) -> String {
    let line = |found: &LocatedProblem<'_>| {
        let help = found.help().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
        let annotation = Annotation {
            level: match found.problem.severity {
                ProblemSeverity::Error => "error",
                ProblemSeverity::Warning => "warning",
            },
            file: found.path.as_deref(),
            line: found.located.as_ref().map(|located| (located.line as u64, Some(located.column as u64))),
            title: found.problem.rule,
            message: &format!("{}{help}", found.problem.message),
        };
        annotation.line()
    };
    found.iter().map(line).collect()
}
