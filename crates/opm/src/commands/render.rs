//! `opm render`: prints catalogs and bundles as one file-based catalog.

use bundle::ImageTemplate;
use fbc::json::Raw;
use fbc::{Blob, Format, Problem};

use super::{MigrateLevel, blob_format, migrate_level};
use crate::dropped_fields::DroppedFields;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{catalogs, limits};

/// Print catalogs and bundles as one file-based catalog
#[derive(clap::Args)]
#[command(
    long_about = "Print catalogs and bundles as one file-based catalog.\n\n\
        A SOURCE is a catalog directory, a bundle directory (with 'manifests' and 'metadata'), or an image of either: a \
        registry reference, oci:DIR, oci-archive:FILE or docker-archive:FILE. opm needs no container engine.\n\n\
        The output is sorted by package, channel and bundle, and is the same on every run. Nothing is printed unless every \
        source can be read. Fields unknown to their schema are dropped with a warning; 'opm migrate' preserves them.",
    after_help = "Examples:\n  \
        opm render my-catalog\n  \
        opm render my-catalog -o yaml > catalog.yaml\n  \
        opm render bundles/etcd/0.9.4 bundles/etcd/0.9.5\n  \
        opm render quay.io/example/etcd-bundle:v0.9.5"
)]
pub(crate) struct RenderArgs {
    /// Catalogs and bundles to render
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// Output format
    #[arg(short, long, value_name = "json|yaml", hide_possible_values = true, default_value = "json", value_parser = blob_format())]
    output: Format,
    /// Apply all migrations to bundles
    #[arg(long, conflicts_with = "migrate_level")]
    migrate: bool,
    /// Migrations to apply to bundles
    #[arg(long, value_name = "LEVEL", value_parser = migrate_level())]
    migrate_level: Option<MigrateLevel>,
    /// Image reference for bundle directories, with placeholders {{.Package}}, {{.Name}} and {{.Version}}
    #[arg(long, value_name = "TEMPLATE", hide = true)]
    alpha_image_ref_template: Option<String>,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &RenderArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let template = args.alpha_image_ref_template.as_deref().map(ImageTemplate::parse).transpose();
    let template = template.map_err(|error| Failure::message(error.to_string()))?;
    let images = images::open(tls, &args.pull);
    let dropped = DroppedFields::default();
    let inspect = |blob: &Blob, text: Raw<'_>, _: &mut Vec<Problem>| dropped.count(blob, text);
    let options = source::SourceOptions {
        catalogs_only: false,
        inspect: Some(&inspect),
        keep_text: true,
        migrate: args.migrate || args.migrate_level == Some(MigrateLevel::CsvMetadata),
        image_template: template.as_ref(),
        directories_only: true,
        ..source::SourceOptions::catalogs(limits::from_env()?, &images)
    };
    let fbc = catalogs::load(&args.sources, &options, printer)?;
    catalogs::warn_of_dropped(&fbc, printer);
    dropped.warn(printer);
    fbc.write(&fbc.in_order(), args.output, printer.data())?;
    Ok(())
}
