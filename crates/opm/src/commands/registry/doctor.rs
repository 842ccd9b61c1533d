//! `opm registry doctor`: diagnoses how opm reaches an image.

use image::Reference;

use crate::commands::build::reference;
use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::output::OutputFlag;
use crate::printer::Printer;

/// Diagnose access to an image
#[derive(clap::Args)]
#[command(
    long_about = "Diagnose access to an image.\n\n\
        The report lists the settings, mirrors, proxies, certificates and credentials that apply to the image, with file \
        and key. The command then queries the registry and each mirror and shows their answers. It never prints secrets. \
        It fails if no location has the image.",
    after_help = "Examples:\n  \
        opm registry doctor quay.io/me/catalog:v1\n  \
        opm registry doctor --ca-file ca.crt -o json registry.example.com/catalog:v1"
)]
pub(crate) struct DoctorArgs {
    /// Image to check
    #[arg(value_name = "REF", value_parser = reference)]
    reference: Reference,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    pull: PullFlags,
}

pub(crate) fn run(args: &DoctorArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let images = images::open(tls, &args.pull);
    let explanation = images.client()?.explain(&args.reference);
    if args.output.is_json() {
        printer.json(&explanation)?;
    } else {
        write!(printer.data(), "{explanation}")?;
    }
    match explanation.verdict() {
        None => Ok(()),
        Some(verdict) => Err(Failure::world(verdict)),
    }
}
