//! `opm bundle unpack`: unpacks a bundle image into a directory.

use std::fs;
use std::path::PathBuf;

use fbc::Members;

use crate::exit::{Failure, Outcome};
use crate::images::{self, PullFlags, TlsFlags};
use crate::printer::Printer;
use crate::tree::NewFiles;
use crate::{limits, tree};

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

pub(super) fn run(args: &UnpackArgs, tls: &TlsFlags, printer: &mut Printer) -> Outcome {
    let out = &args.out;
    match fs::metadata(out) {
        Ok(metadata) if !metadata.is_dir() => {
            return Err(Failure::usage(format!("out {} is not a directory", out.display())));
        }
        _ => {}
    }
    let mut pull = args.pull.clone();
    pull.ca_file = pull.ca_file.or(args.root_ca.clone());
    let images = images::open(tls, &pull);
    let fetched = images.fetch_one(&args.reference)?;
    let limits = limits::from_env()?;
    let root = images.unpack_aside(&fetched.image)?;
    if !args.skip_validation {
        let warnings = super::check(&root, &[], &limits)?;
        if args.debug {
            warnings.iter().for_each(|warning| printer.warning(warning));
        }
    }
    let mut members = Members::below(&root, &bundle::directories(&fetched.image.labels()), limits.files)?;
    tree::warn_of_unportable(&members.remove_unportable(&root)?, printer);
    let new = NewFiles::start(out)?;
    members.copy_to(new.path())?;
    new.finish()?;
    if args.debug {
        printer.report(&format!("unpacked {} ({}) to {}", args.reference, fetched.image.digest, out.display()));
    }
    Ok(())
}
