//! `opm schema`: prints the JSON Schemas of catalogs and related files, for editors and validators.

use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;
use crate::reports::{REPORTS, Report};

/// Print the JSON Schema of a blob, property, template, file or report
#[derive(clap::Args)]
#[command(
    long_about = "Print the JSON Schema (2020-12) of a blob, property, template, file or report.\n\n\
        Without NAME, opm prints the schema of any catalog document. --list lists \
        the names. A report is what a command prints with -o json. Editors find the schema \
        of a YAML file by a comment in its first line. 'opm init', 'opm template render' and 'opm template \
        convert' write that comment with --editor-schema:\n\n  \
        # yaml-language-server: $schema=schemas/catalog.json",
    after_help = "Examples:\n  \
        opm schema > catalog.schema.json\n  \
        opm schema olm.channel\n  \
        opm schema property/olm.package\n  \
        opm schema olm.semver\n  \
        opm schema report/diff"
)]
pub(crate) struct SchemaArgs {
    /// Blob, property, template, file or report
    #[arg(value_name = "NAME", default_value = catalog::schema::CATALOG, hide_default_value = true)]
    name: String,
    /// List the names of all schemas
    #[arg(long)]
    list: bool,
}

/// Returns the names of all schemas.
fn names() -> Vec<String> {
    catalog::schema::names().into_iter().chain(REPORTS.iter().map(Report::full_name)).collect()
}

pub(crate) fn run(args: &SchemaArgs, printer: &mut Printer) -> CommandResult {
    if args.list {
        return Ok(names().iter().try_for_each(|name| writeln!(printer.data(), "{name}"))?);
    }
    let report = REPORTS.iter().find(|report| report.full_name() == args.name);
    let Some(schema) = report.map(Report::schema).or_else(|| catalog::schema::json_schema(&args.name)) else {
        return Err(Failure::message(format!(
            "unknown schema \"{}\"; the schemas are {}",
            args.name,
            names().join(", ")
        )));
    };
    writeln!(printer.data(), "{schema:#}")?;
    Ok(())
}
