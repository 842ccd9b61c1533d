//! `opm schema`: prints the JSON Schemas of catalogs and related files, for editors and validators.

use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;

/// Print the JSON Schema of a blob, property, template or file
#[derive(clap::Args)]
#[command(
    long_about = "Print the JSON Schema (2020-12) of a blob, property, template or file.\n\n\
        Without NAME, opm prints the schema of any catalog document. 'opm explain' lists the names. Editors find the schema \
        of a YAML file by a comment in its first line. 'opm init', 'opm template render' and 'opm template \
        convert' write that comment with --editor-schema:\n\n  \
        # yaml-language-server: $schema=schemas/catalog.json",
    after_help = "Examples:\n  \
        opm schema > catalog.schema.json\n  \
        opm schema olm.channel\n  \
        opm schema property/olm.package\n  \
        opm schema olm.semver"
)]
pub(crate) struct SchemaArgs {
    /// Blob, property, template or file
    #[arg(value_name = "NAME", default_value = catalog::schema::CATALOG, hide_default_value = true)]
    name: String,
}

pub(crate) fn run(args: &SchemaArgs, printer: &mut Printer) -> CommandResult {
    let Some(schema) = catalog::schema::json_schema(&args.name) else {
        let names = catalog::schema::names();
        return Err(Failure::message(format!(
            "unknown schema \"{}\"; the schemas are {}",
            args.name,
            names.join(", ")
        )));
    };
    writeln!(printer.data(), "{schema:#}")?;
    Ok(())
}
