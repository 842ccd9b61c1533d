//! `opm migrate`: writes a catalog to a new directory in the current format.

use std::path::PathBuf;

use fbc::Format;
use fbc::scratch::check_empty;
use source::CatalogLayout;

use super::{MigrateLevel, blob_format, migrate_level};
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{catalogs, limits};

/// Write a catalog to a new directory in the current format
#[derive(clap::Args)]
#[command(
    long_about = "Write a catalog to a new directory in the current format.\n\n\
        Each package gets its own directory with one file, 'catalog.json' or 'catalog.yaml'. Blobs without a package go \
        to a file at the top level. Unknown fields and schemas are preserved. The directory appears only after everything \
        is written.",
    after_help = "Examples:\n  opm migrate old-catalog new-catalog\n  opm migrate old-catalog new-catalog -o yaml"
)]
pub(crate) struct MigrateArgs {
    /// Catalog directory, image or database
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Directory to write; must be empty or absent
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Output format
    #[arg(short, long, value_name = "json|yaml", hide_possible_values = true, default_value = "json", value_parser = blob_format())]
    output: Format,
    /// Migrations to apply to bundles
    #[arg(long, value_name = "LEVEL", value_parser = migrate_level())]
    migrate_level: Option<MigrateLevel>,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &MigrateArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let target = &args.directory;
    check_empty(target).map_err(Failure::fault)?;
    let images = images::open(tls, &args.pull);
    let options = source::SourceOptions {
        keep_text: true,
        migrate: args.migrate_level == Some(MigrateLevel::CsvMetadata),
        ..source::SourceOptions::catalogs(limits::from_env()?, &images)
    };
    let fbc = catalogs::load(std::slice::from_ref(&args.source), &options, printer)?;
    catalogs::warn_of_dropped(&fbc, printer);
    Ok(source::write_new(&fbc, target, CatalogLayout::Catalog(args.output))?)
}
