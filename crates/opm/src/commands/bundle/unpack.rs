//! `opm bundle unpack`: unpacks a bundle image into a directory.

use std::fs;
use std::path::PathBuf;

use bundle::BundleCheck;
use fbc::spelling::calendar::today;
use source::{UnpackBundle, UnpackBundleError};

use crate::exit::{CommandResult, Failure};
use crate::images::{self, PullFlags, TlsFlags};
use crate::limits;
use crate::printer::Printer;

/// Unpack a bundle image into a directory
#[derive(clap::Args)]
#[command(
    long_about = "Unpack a bundle image into a directory.\n\n\
        Writes manifests, metadata, tests and the other directories that the labels of the image name, without hidden \
        files and links. Checks the bundle first unless --skip-validation is given. Overwrites nothing: if one of the \
        files exists, opm writes none of them.",
    after_help = "Examples:\n  \
        opm bundle unpack quay.io/me/foo-bundle:v1.0.0 --out foo\n  \
        opm bundle unpack oci:layout --out foo --skip-validation"
)]
pub(super) struct UnpackArgs {
    /// Bundle image
    #[arg(value_name = "REF")]
    reference: String,
    /// Directory to write to
    #[arg(short, long, value_name = "DIR", default_value = "./")]
    out: PathBuf,
    /// Do not check the bundle
    #[arg(short = 'v', long)]
    skip_validation: bool,
    /// File with additional CA certificates to trust for registries
    #[arg(short = 'c', long, value_name = "FILE", help_heading = "Registries", conflicts_with = "ca_file")]
    root_ca: Option<PathBuf>,
    /// Print warnings and the digest of the image
    #[arg(short, long)]
    debug: bool,
    #[command(flatten)]
    pull: PullFlags,
}

pub(super) fn run(args: &UnpackArgs, tls: &TlsFlags, printer: &mut Printer) -> CommandResult {
    let out = &args.out;
    if fs::metadata(out).is_ok_and(|metadata| !metadata.is_dir()) {
        return Err(Failure::usage(format!("out {} is not a directory", out.display())));
    }
    let mut pull = args.pull.clone();
    pull.ca_file = pull.ca_file.or(args.root_ca.clone());
    let limits = limits::from_env()?;
    let check = (!args.skip_validation).then(|| BundleCheck::plain(&limits, today()));
    let request = UnpackBundle { image: &args.reference, target: out, check, limits: &limits };
    let unpacked = source::unpack_bundle(&request, &images::open(tls, &pull)).map_err(|error| match error {
        UnpackBundleError::Source(error) => error.into(),
        error => Failure::fault(error),
    })?;
    if args.debug {
        unpacked.warnings.iter().for_each(|warning| printer.warning(warning));
        printer.report(&format!("unpacked {} ({}) to {}", args.reference, unpacked.digest, out.display()));
    }
    Ok(())
}
