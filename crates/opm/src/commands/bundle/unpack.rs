//! `opm bundle unpack`: unpacks a bundle image into a directory.

use std::fs;
use std::path::PathBuf;

use crate::exit::{Failure, Outcome};
use crate::images::{Images, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::{limits, tree};

/// Unpack a bundle image into a directory
#[derive(clap::Args)]
#[command(
    long_about = "Unpack a bundle image into a directory.\n\n\
        Checks the bundle first unless --skip-validation is given. Existing files in the directory that are not in the \
        image stay.",
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

pub(super) fn run(args: &UnpackArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let out = &args.out;
    match fs::metadata(out) {
        Ok(metadata) if !metadata.is_dir() => {
            return Err(Failure::message(format!("out {} is not a directory", out.display())));
        }
        _ => {}
    }
    let mut pull = args.pull.clone();
    pull.ca_file = pull.ca_file.or(args.root_ca.clone());
    let images = Images::new(tls, &pull);
    let fetched = images.fetch_one(&args.reference).map_err(Failure::message)?;
    let root = images.unpack_aside(&fetched.image, None).map_err(Failure::message)?;
    if !args.skip_validation {
        let warnings = super::check(&root, &[], &limits::from_env()?)?;
        if args.debug {
            warnings.iter().for_each(|warning| printer.warning(warning));
        }
    }
    fs::create_dir_all(out).map_err(|error| tree::in_path(out, &error))?;
    for link in tree::copy(&root, out)? {
        let link = link.strip_prefix(&root).unwrap_or(&link);
        printer.warning(&format!("{}: skipped: the link target does not exist", link.display()));
    }
    if args.debug {
        printer.report(&format!("unpacked {} ({}) to {}", args.reference, fetched.image.digest, out.display()));
    }
    Ok(())
}
