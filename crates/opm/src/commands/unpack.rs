//! `opm unpack`: unpacks a catalog image for editing.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use fbc::scratch::check_empty;
use source::{CatalogLayout, CatalogUnpackError, UnpackReport, UnpackRequest, UnpackedFiles};

use crate::choice::choice;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags, or_latest};
use crate::output::OutputFlag;
use crate::printer::Printer;
use crate::{limits, report, tree};

/// Unpack a catalog image into a directory for editing
#[derive(clap::Args)]
#[command(
    long_about = "Unpack a catalog image into a directory for editing.\n\n\
        The directory is named after the repository of the image and appears only when it is complete. It holds the catalog \
        files of the image unchanged, but no files that do not belong to the catalog, no hidden files, and copies in place of \
        links, so that 'opm build' builds the same catalog from it. If a file holds several packages, \
        each package gets its own file, PACKAGE/PACKAGE.json, with the objects of its bundles in PACKAGE/objects. Blobs \
        without a package go to __global.json.\n\n\
        --layout selects the files: image keeps all files unchanged, single writes one file, package one per package, bundle \
        one per bundle.",
    after_help = "Examples:\n  \
        opm unpack quay.io/me/catalog:v1              # to the directory 'catalog'\n  \
        opm unpack quay.io/me/catalog:v1 --unpack-dir edited\n  \
        opm unpack quay.io/me/catalog:v1 --layout bundle\n  \
        opm unpack oci:layout:v1"
)]
pub(crate) struct UnpackArgs {
    /// Catalog image
    #[arg(value_name = "REF", value_parser = or_latest)]
    reference: Option<String>,
    /// Catalog image, as a flag
    #[arg(long, value_name = "REF", value_parser = or_latest)]
    image: Option<String>,
    /// Directory to write; must be empty or absent; defaults to the name of the repository
    #[arg(long, value_name = "DIR")]
    unpack_dir: Option<PathBuf>,
    /// File layout; defaults to image, or package if a file holds several packages
    #[arg(long, value_name = "LAYOUT", value_parser = layout())]
    layout: Option<UnpackedFiles>,
    /// Print the image digest, the catalog path and the output directory
    #[arg(long)]
    debug: bool,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    pull: PullFlags,
}

fn layout() -> impl TypedValueParser<Value = UnpackedFiles> {
    choice([
        ("image", UnpackedFiles::Image),
        ("single", UnpackedFiles::New(CatalogLayout::Single)),
        ("package", UnpackedFiles::New(CatalogLayout::Package)),
        ("bundle", UnpackedFiles::New(CatalogLayout::Bundle)),
    ])
}

pub(crate) fn run(args: &UnpackArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let reference = match (&args.reference, &args.image) {
        (Some(reference), None) | (None, Some(reference)) => reference,
        _ => return Err(Failure::message("exactly one image is required")),
    };
    let target = match &args.unpack_dir {
        Some(directory) => directory.clone(),
        None => source::unpack_directory(reference).map_err(|error| failure(error, printer))?,
    };
    check_empty(&target).map_err(Failure::fault)?;
    let images = images::open(tls, &args.pull);
    let request = UnpackRequest { image: reference, target: &target, files: args.layout, limits: limits::from_env()? };
    let unpacked = source::unpack_image(&request, &images).map_err(|error| failure(error, printer))?;
    unpacked.unreadable.iter().for_each(|message| printer.warning(&format!("left out: {message}")));
    tree::warn_of_unportable(&unpacked.unportable, printer);
    if args.output.is_json() {
        printer.json(&unpacked)?;
    }
    if args.debug {
        let UnpackReport { digest, path, .. } = unpacked;
        printer.report(&format!("{reference} has the digest {digest} and its catalog at {path}"));
        printer.report(&format!("unpacked to {}", target.display()));
    }
    Ok(())
}

fn failure(error: CatalogUnpackError, printer: &Printer) -> Failure {
    match error {
        CatalogUnpackError::Source(error) => error.into(),
        error => {
            if let CatalogUnpackError::Problems { fbc, problems, .. } = &error {
                report::show(printer, &report::find(fbc, problems));
            }
            Failure::fault(error)
        }
    }
}
