//! `opm validate`: reports all problems of a catalog in one run.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use catalog::Warnings;
use catalog::validation::{self, UnrelatedFiles, Validation};
use clap::builder::TypedValueParser;
use fbc::json::{JsonLayout, Raw, Text};
use fbc::locate::LocatedProblem;
use fbc::{Blob, Problem, ProblemSeverity};
use resolve::dependencies;
use resolve::input::InputReader;
use source::{Images, LoadedCatalog, NamedSource, SourceOptions};

use super::offline::sources;

use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::{Printer, Style};
use crate::{catalogs, limits, report};

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
    let passed = !found.iter().any(LocatedProblem::is_error);
    if args.output == ValidateOutput::Text
        && !passed
        && let Some(failure) = catalogs::bundle_instead(&fbc)
    {
        return Err(failure);
    }
    match args.output {
        ValidateOutput::Text if args.tree => report::show_tree(printer, &found),
        ValidateOutput::Text if passed && printer.stderr_is_terminal => {
            report::show(printer, &found);
            printer.report("No errors found");
        }
        ValidateOutput::Text => {
            report::show(printer, &found);
            if let Some(unrelated) = UnrelatedFiles::find(&fbc, &found, path) {
                report_unrelated(&unrelated, path, printer);
            }
        }
        ValidateOutput::Json | ValidateOutput::Yaml => {
            let report = serde_json::to_value(Validation::new(&found)).map_err(io::Error::from)?;
            let json = Text::from(&report);
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
        ValidateOutput::Sarif => printer.data().write_all(validation::sarif(&found).as_bytes())?,
        ValidateOutput::Github => printer.data().write_all(validation::github(&found).as_bytes())?,
    }
    if passed { Ok(()) } else { Err(Failure::Reported) }
}

/// Finds the catalog. A single file is refused: it can be a part of one.
fn open(source: &str, images: &Images) -> Result<NamedSource, Failure> {
    let path = Path::new(source);
    if path.is_dir() {
        return Ok(NamedSource::Catalog(path.into()));
    }
    if path.exists() && !source::is_database(path) {
        if !path.extension().is_some_and(|extension| ["json", "yaml", "yml"].iter().any(|known| extension == *known)) {
            let message = format!("\"{source}\" is {}, not a catalog", kind_of_file(path)?);
            let help = "a catalog is a directory, an image or a SQLite database";
            return Err(Failure::message(message).hint(Some(help)));
        }
        let parent = fbc::scratch::parent(path).display();
        let help = format!("to check the catalog that the file belongs to: opm validate {parent}");
        return Err(Failure::message(format!("\"{source}\" is not a directory\nhelp: {help}")));
    }
    Ok(source::resolve_one(source, images).map_err(|error| error.named(source))?)
}

/// Describes a file that is no database by its first bytes.
fn kind_of_file(path: &Path) -> io::Result<&'static str> {
    if !path.is_file() {
        return Ok("not a file");
    }
    let mut start = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut start)?;
    Ok(match &*start {
        [] => "an empty file",
        [0x1f, 0x8b, ..] => "a gzip archive",
        bytes if bytes.contains(&0) || std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_some()) => {
            "a binary file of another kind"
        }
        _ => "a text file of another kind",
    })
}

/// Lists the files that do not look like catalog files: the user probably checks a whole repository.
fn report_unrelated(unrelated: &UnrelatedFiles, root: &Path, printer: &Printer) {
    const SHOWN: usize = 8;
    let mut list: Vec<&str> = unrelated.names.iter().map(String::as_str).take(SHOWN).collect();
    let more = format!("and {} more", unrelated.names.len().saturating_sub(SHOWN));
    if unrelated.names.len() > SHOWN {
        list.push(&more);
    }
    let list = list.join(", ");
    let them = match unrelated.count {
        1 => {
            printer.report(&format!("\n{list} does not look like a catalog file"));
            "it"
        }
        count => {
            printer.report(&format!("\n{count} files do not look like catalog files: {list}"));
            "them"
        }
    };
    let ignored = root.join(".indexignore");
    let only = unrelated.catalog.as_ref().map(|path| format!(", or check only {}", path.display())).unwrap_or_default();
    let help = printer.paint(Style::Help, "help:");
    printer.report(&format!("{help} list {them} in {}{only}", ignored.display()));
}

fn report_warnings(found: &[LocatedProblem<'_>], printer: &Printer) {
    for found in found.iter().filter(|found| found.problem.severity == ProblemSeverity::Warning) {
        printer.warning(&found.problem.message);
    }
}
