//! `opm diff`: shows the differences between two catalogs. `opm alpha diff`: prints the new content as a catalog.

use std::path::{Path, PathBuf};

use catalog::{Catalog, Warnings};
use clap::builder::TypedValueParser;
use edit::diff::{self, DiffSide, Include, IncludeError, changes};
use fbc::{Arrangement, Fbc, Format, Limits, LoadReport};
use source::Images;

use super::{blob_format, line_of, read_input};
use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{catalogs, limits, report};

/// Show the differences between two catalogs
#[derive(clap::Args)]
#[command(
    long_about = "Show the differences between two catalogs: packages, default channels, channels and their heads, new and \
        removed versions, upgrade edges, images, properties, permissions, versions of CRDs, deprecations.\n\n\
        OLD and NEW are catalog directories, images, databases or single files, and must be valid. The output is sorted and does not \
        depend on how the catalogs are written.\n\n\
        The exit code is 0 even if the catalogs differ; with --exit-code it is 1 in that case.",
    after_help = "Examples:\n  \
        opm diff released my-catalog\n  \
        opm diff quay.io/example/catalog:v1 my-catalog --changelog -o markdown > CHANGES.md\n  \
        opm diff released my-catalog --exit-code -o json"
)]
pub(crate) struct DiffArgs {
    /// Old catalog
    #[arg(value_name = "OLD")]
    old: String,
    /// New catalog
    #[arg(value_name = "NEW")]
    new: String,
    /// Show what each new version changes relative to the previous one
    #[arg(long)]
    changelog: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = output())]
    output: DiffOutput,
    /// Exit with 1 if the catalogs differ
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    pull: PullFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiffOutput {
    Text,
    Markdown,
    Json,
}

fn output() -> impl TypedValueParser<Value = DiffOutput> {
    choice([("text", DiffOutput::Text), ("markdown", DiffOutput::Markdown), ("json", DiffOutput::Json)])
}

/// Print the new content of a catalog as a catalog
#[derive(clap::Args)]
#[command(
    long_about = "Print the new content of a catalog as a catalog: the channel entries of NEW whose bundles OLD lacks or has \
        with other contents, and their dependencies. Without OLD all of NEW is new.\n\n\
        OLD and NEW are catalog directories, images, databases or single files; several, separated by commas, count as one. The command \
        ignores changes of upgrade edges alone: use 'opm diff' for those. The result is a part of NEW with the same \
        default channels, and is not necessarily valid.\n\n\
        An include file is YAML or JSON:\n  \
        packages:\n  \
        - name: foo             # the whole package, or with --headsOnly the heads of its channels\n  \
        - name: bar\n    \
        channels:\n    \
        - name: stable        # the whole channel, or its head\n    \
        - name: beta\n      \
        versions: [1.2.0]   # these and all up to the head\n      \
        bundles: [bar.v1.1] # the same by name; alone it selects the whole channel\n  \
        - name: baz\n    \
        range: '>=2.0.0'      # these in every channel; 'versions' and 'bundles' work here too",
    after_help = "Examples:\n  \
        opm alpha diff old-catalog new-catalog > new.yaml\n  \
        opm alpha diff quay.io/example/catalog:v2 --headsOnly -o json\n  \
        opm alpha diff new-catalog --include-file wanted.yaml"
)]
pub(crate) struct AlphaDiffArgs {
    /// Old catalog and new catalog; a single argument is the new one
    #[arg(value_name = "[OLD] NEW", required = true, num_args = 1..=2)]
    references: Vec<String>,
    /// Output format
    #[arg(short, long, value_name = "json|yaml", hide_possible_values = true, default_value = "yaml", value_parser = blob_format())]
    output: Format,
    /// Include only channel heads
    #[arg(long = "headsOnly", alias = "heads-only")]
    heads_only: bool,
    /// File that selects the content to include
    #[arg(short, long, value_name = "FILE")]
    include_file: Option<PathBuf>,
    /// Include the content of the include file in addition to all other content
    #[arg(long)]
    include_additive: bool,
    /// Leave out dependencies
    #[arg(long)]
    skip_deps: bool,
    /// Print included dependencies on stderr
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &DiffArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let limits = limits::from_env()?;
    let images = images::open(tls, &args.pull);
    let (old_fbc, old) = load(&args.old, &images, &limits, printer)?;
    let (new_fbc, new) = load(&args.new, &images, &limits, printer)?;
    let options = changes::CompareOptions { changelog: args.changelog, limits };
    let old = DiffSide { fbc: &old_fbc, catalog: &old };
    let found = changes::changes(old, DiffSide { fbc: &new_fbc, catalog: &new }, &options)?;
    match args.output {
        DiffOutput::Text => {
            let text = changes::text(&found, printer.colour_data);
            printer.data().write_all(text.as_bytes())?;
        }
        DiffOutput::Markdown => printer.data().write_all(changes::markdown(&found).as_bytes())?,
        DiffOutput::Json => printer.json(&found)?,
    }
    if args.exit_code && !found.is_empty() {
        printer.flush()?;
        return Err(Failure::Reported);
    }
    Ok(())
}

pub(crate) fn run_alpha(args: &AlphaDiffArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let limits = limits::from_env()?;
    if args.include_additive && args.include_file.is_none() {
        return Err(Failure::usage("must set --include-file if --include-additive is set"));
    }
    let include = args.include_file.as_deref().map(|file| include(file, &limits, printer)).transpose()?;
    let images = images::open(tls, &args.pull);
    let (old, new) = match args.references.as_slice() {
        [old, new] => (Some(load(old, &images, &limits, printer)?), new.as_str()),
        [new] => (None, new.as_str()),
        _ => return Err(Failure::usage("expected one or two references")),
    };
    let (mut fbc, catalog) = load(new, &images, &limits, printer)?;
    let options = diff::DiffOptions {
        heads_only: args.heads_only,
        include,
        include_additive: args.include_additive,
        skip_dependencies: args.skip_deps,
    };
    let old = old.as_ref().map(|(fbc, catalog)| DiffSide { fbc, catalog });
    let selection = diff::diff(old, DiffSide { fbc: &fbc, catalog: &catalog }, &options)
        .map_err(|error| Failure::message(format!("generate diff: {error}")))?;
    if args.debug {
        selection.notes.iter().for_each(|note| printer.report(&format!("debug: {note}")));
    }
    let blobs = selection.into_blobs(&mut fbc, &limits)?;
    let blobs: Vec<_> = blobs.iter().map(|&number| &fbc.blobs()[number]).collect();
    fbc.write_arranged(&blobs, args.output, Arrangement::Sorted, printer.data())?;
    Ok(())
}

/// Loads and checks the catalogs of one side, separated by commas.
pub(crate) fn load(
    references: &str,
    images: &Images,
    limits: &Limits,
    printer: &Printer,
) -> Result<(Fbc, Catalog), Failure> {
    let inspect = catalog::inspect(Warnings::Off);
    let options = source::SourceOptions {
        keep_text: true,
        inspect: Some(&inspect),
        ..source::SourceOptions::catalogs(limits.clone(), images)
    };
    let names: Vec<String> = references.split(',').map(str::to_owned).collect();
    let fbc = catalogs::load(&names, &options, printer)?;
    let checked = catalog::check(&fbc, LoadReport::default(), Warnings::Off);
    match checked.catalog {
        Ok(catalog) => Ok((fbc, catalog)),
        Err(problems) => {
            printer.error(&format!("\"{references}\" is not a valid catalog:"));
            report::show(printer, &report::find(&fbc, problems.errors()));
            Err(Failure::Reported)
        }
    }
}

/// Reads an include file.
fn include(file: &Path, limits: &Limits, printer: &Printer) -> Result<Include, Failure> {
    let name = file.display();
    let failed = |error: String| Failure::message(format!("include file {name}: {error}"));
    let text = read_input(&file.to_string_lossy(), limits).map_err(|error| failed(error.to_string()))?;
    let include = Include::parse(&text, limits).map_err(|error| match &error {
        IncludeError::Stream(at) => {
            Failure::message(format!("include file {name}:{}: {error}", line_of(&text, at.offset)))
        }
        IncludeError::Content(_) => failed(error.to_string()),
    })?;
    include.warnings.iter().for_each(|warning| printer.warning(&format!("include file {name}: {warning}")));
    Ok(include)
}
